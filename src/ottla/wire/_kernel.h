/* What the parts of the kernel share: reading one record, output that grows, checksums. See _kernel.c. */
#ifndef OTTLA_KERNEL_H
#define OTTLA_KERNEL_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define RECORD_BYTES_MIN 7 /* a length, attributes, two deltas, null key, null value, no headers */

static inline const uint8_t *end_of(const Py_buffer *buffer)
{
    return (const uint8_t *)buffer->buf + buffer->len;
}

/* ---- One record ---- */

/* Readers advance *at and return NULL, or return the reason why not. */

static const char TOO_LONG[] = "varint is too long";
static const char TRUNCATED[] = "truncated";

static inline const char *read_long_varint(const uint8_t **at, const uint8_t *end, int bits, int64_t *value)
{
    uint64_t raw = 0;
    const uint8_t *next = *at;
    for (int shift = 0; next < end; ) {
        uint64_t byte = *next++;
        uint64_t part = byte & 0x7f;
        if (shift + 7 > bits && part >> (bits - shift))
            return TOO_LONG;
        raw |= part << shift;
        if (byte < 0x80) {
            *value = (int64_t)(raw >> 1 ^ (0 - (raw & 1)));
            *at = next;
            return NULL;
        }
        shift += 7;
        if (shift >= bits)
            return TOO_LONG;
    }
    return TRUNCATED;
}

static inline const char *read_varint(const uint8_t **at, const uint8_t *end, int bits, int64_t *value)
{
    const uint8_t *next = *at;
    if (next < end && *next < 0x80) {
        *value = (int64_t)(*next >> 1) ^ -(int64_t)(*next & 1);
        *at = next + 1;
        return NULL;
    }
    if (end - next >= 2 && next[1] < 0x80) {
        uint32_t raw = (uint32_t)(next[0] & 0x7f) | (uint32_t)next[1] << 7;
        *value = (int64_t)(raw >> 1) ^ -(int64_t)(raw & 1);
        *at = next + 2;
        return NULL;
    }
    return read_long_varint(at, end, bits, value);
}

typedef struct {
    const uint8_t *start; /* NULL: null */
    const uint8_t *end;
} Field;

typedef struct {
    int64_t offset_delta, timestamp_delta;
    Field key, value;
    const uint8_t *headers, *end;
} Record;

static inline const char *read_field(const uint8_t **at, const uint8_t *end, Field *field, const char *out_of_bounds)
{
    int64_t length;
    const char *fault = read_varint(at, end, 32, &length);
    if (fault)
        return fault;
    if (length < 0) {
        field->start = field->end = NULL;
        return NULL;
    }
    if (length > end - *at)
        return out_of_bounds;
    field->start = *at;
    field->end = *at += length;
    return NULL;
}

static inline const char *skip_headers(const uint8_t **at, const uint8_t *end)
{
    int64_t count;
    Field key, value;
    const char *fault = read_varint(at, end, 32, &count);
    if (fault)
        return fault;
    if (count < 0)
        return "header count is negative";
    if (count > end - *at)
        return "more headers than bytes";
    while (count--) {
        if ((fault = read_field(at, end, &key, "header key is out of bounds")))
            return fault;
        if (!key.start)
            return "header key is null";
        if ((fault = read_field(at, end, &value, "header value is out of bounds")))
            return fault;
    }
    return NULL;
}

static inline const char *read_record(const uint8_t *at, const uint8_t *end, Record *record)
{
    int64_t length;
    const char *fault = read_varint(&at, end, 32, &length);
    if (fault)
        return fault;
    if (length < 0 || length > end - at)
        return "length is out of bounds";
    if (!length)
        return TRUNCATED;
    record->end = end = at + length;
    at++; /* attributes: none are defined */
    if ((fault = read_varint(&at, end, 64, &record->timestamp_delta)) ||
        (fault = read_varint(&at, end, 32, &record->offset_delta)) ||
        (fault = read_field(&at, end, &record->key, "key is out of bounds")) ||
        (fault = read_field(&at, end, &record->value, "value is out of bounds")))
        return fault;
    record->headers = at;
    if ((fault = skip_headers(&at, end)))
        return fault;
    return at == end ? NULL : "fields end before the record does";
}

typedef struct {
    const uint8_t *start, *end;
    int64_t count;
} Payload;

typedef struct {
    int64_t index;
    const char *reason; /* NULL: all is well */
} Fault;

static inline Fault count_is_possible(const Payload *payload)
{
    if (payload->count < 0)
        return (Fault){-1, "count is negative"};
    if (payload->count > (payload->end - payload->start) / RECORD_BYTES_MIN)
        return (Fault){-1, "more records than bytes"};
    return (Fault){-1, NULL};
}

static inline Fault all_consumed(const Payload *payload, const uint8_t *at)
{
    return (Fault){-1, at == payload->end ? NULL : "bytes after the last record"};
}

static inline Payload payload_of(const Py_buffer *data, long long count)
{
    return (Payload){data->buf, end_of(data), count};
}

PyObject *raise_bad_record(PyObject *module, Fault fault);

/* ---- Output ---- */

typedef struct {
    uint8_t *data;
    size_t used, size;
} Output;

static inline int reserve(Output *output, size_t more)
{
    if (output->size - output->used >= more)
        return 0;
    size_t size = output->size * 2 > output->used + more ? output->size * 2 : output->used + more;
    uint8_t *data = more <= PY_SSIZE_T_MAX / 4 ? PyMem_Realloc(output->data, size) : NULL;
    if (!data) {
        PyErr_NoMemory();
        return -1;
    }
    output->data = data;
    output->size = size;
    return 0;
}

#define VARINT_BYTES_MAX 10

static inline uint8_t *put_varint(uint8_t *at, int64_t value)
{
    uint64_t raw = (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
    for (; raw > 0x7f; raw >>= 7)
        *at++ = (uint8_t)(raw | 0x80);
    *at++ = (uint8_t)raw;
    return at;
}

static inline int put_number(Output *output, int64_t value)
{
    if (reserve(output, VARINT_BYTES_MAX))
        return -1;
    output->used = (size_t)(put_varint(output->data + output->used, value) - output->data);
    return 0;
}

static inline int put_bytes(Output *output, const void *data, Py_ssize_t size)
{
    if (put_number(output, size) || reserve(output, (size_t)size))
        return -1;
    memcpy(output->data + output->used, data, (size_t)size);
    output->used += (size_t)size;
    return 0;
}

/* The hash of Java's default partitioner. */
static inline int32_t murmur2(const uint8_t *at, int64_t left)
{
    const uint32_t m = 0x5BD1E995;
    uint32_t h = 0x9747B28Cu ^ (uint32_t)left;
    for (; left >= 4; at += 4, left -= 4) {
        uint32_t k = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        k *= m;
        k ^= k >> 24;
        h = h * m ^ k * m;
    }
    if (left) {
        for (int64_t i = 0; i < left; i++)
            h ^= (uint32_t)at[i] << 8 * i;
        h *= m;
    }
    h ^= h >> 13;
    h *= m;
    h ^= h >> 15;
    return (int32_t)h;
}

/* _kernel.c */
int put_headers(Output *output, PyObject *headers);
int number(PyObject *object, int64_t *value, const char *too_large);

/* _kernel_rows.c */
enum { ROOM, ROWS, GATE, RECEIPT, LANE, ROW_TYPES };
int add_row_types(PyObject *module, PyObject **types);
PyObject *py_tuples(PyObject *module, PyObject *args);
int is_kernel_subtype(PyObject *type, int which);
int is_kernel_type(PyObject *object, int which);

/* _kernel_crc.c */
uint32_t crc_portable(uint32_t crc, const uint8_t *at, size_t size);
extern uint32_t (*crc_update)(uint32_t crc, const uint8_t *at, size_t size);
uint32_t crc32c(const uint8_t *data, size_t size, uint32_t crc);
void crc_prepare(void);

/* _kernel_columns.c */
PyObject *py_measure_columns(PyObject *module, PyObject *args, PyObject *names);
PyObject *py_fill_columns(PyObject *module, PyObject *args, PyObject *names);
PyObject *py_fill_headers(PyObject *module, PyObject *args, PyObject *names);
PyObject *py_encode_columns(PyObject *module, PyObject *args, PyObject *names);
PyObject *py_partition_column(PyObject *module, PyObject *args, PyObject *names);

/* _kernel_ids.c */
PyObject *py_strays(PyObject *module, PyObject *args, PyObject *names);

#endif
