/* Records to and from the buffers of Arrow arrays. kernel_columns_py.py is the same in Python.
 *
 * The caller brings the buffers; every write and read is checked against their ends, and whatever does not
 * fit is a ValueError: a wrong size is a bug of ours, never a way out of the buffer. */
#include "_kernel.h"

#define FITS_NOT "the columns are too small"

typedef struct {
    uint8_t *offsets, *data, *valid; /* valid NULL: no nulls here */
    int64_t offsets_bytes, data_bytes, valid_bytes;
} Column;

static Column column_of(const Py_buffer *offsets, const Py_buffer *data, const Py_buffer *valid)
{
    return (Column){offsets->buf, data->buf, valid ? valid->buf : NULL, offsets->len, data->len, valid ? valid->len : 0};
}

static inline int32_t offset_at(const Column *column, int64_t row)
{
    int32_t offset;
    memcpy(&offset, column->offsets + 4 * row, 4);
    return offset;
}

static inline int set_offset(Column *column, int64_t row, int64_t offset)
{
    int32_t narrow = (int32_t)offset;
    if (offset > INT32_MAX || 4 * (row + 1) > column->offsets_bytes)
        return -1;
    memcpy(column->offsets + 4 * row, &narrow, 4);
    return 0;
}

static inline int put_cell(Column *column, int64_t row, const Field *field)
{
    int64_t length = field->end - field->start;
    if (4 * (row + 2) > column->offsets_bytes)
        return -1;
    int64_t start = offset_at(column, row);
    if (start < 0 || start > column->data_bytes || length > column->data_bytes - start)
        return -1;
    if (length)
        memcpy(column->data + start, field->start, (size_t)length);
    if (column->valid) {
        if (row >> 3 >= column->valid_bytes)
            return -1;
        uint8_t *bits = column->valid + (row >> 3);
        uint8_t bit = (uint8_t)((field->start ? 1 : 0) << (row & 7));
        *bits = row & 7 ? (uint8_t)(*bits | bit) : bit; /* a byte's first row clears what was there */
    }
    return set_offset(column, row + 1, start + length);
}

static inline int put_int64(const Py_buffer *column, int64_t row, int64_t value)
{
    if (8 * (row + 1) > column->len)
        return -1;
    memcpy((uint8_t *)column->buf + 8 * row, &value, 8);
    return 0;
}

/* Arrow counts microseconds. Times that do not fit become the furthest that does. */
static inline int64_t micros(int64_t millis)
{
    if (millis > INT64_MAX / 1000)
        return INT64_MAX;
    return millis < INT64_MIN / 1000 ? INT64_MIN : millis * 1000;
}

/* Which records are wanted, and what to make of their deltas. */
typedef struct {
    long long first, end; /* offset deltas */
    long long base_offset, base_timestamp;
    int same_time; /* all have the base timestamp: log append time */
} Wanted;

static inline int is_wanted(const Wanted *wanted, const Record *record)
{
    return record->offset_delta >= wanted->first && record->offset_delta < wanted->end;
}

/* ---- How large the columns have to be ---- */

typedef struct {
    int64_t rows, key_bytes, value_bytes, null_keys, null_values, headers, header_key_bytes, header_value_bytes;
} Measure;

/* The record was read, so its headers are whole. */
static void measure_headers(const Record *record, Measure *measure)
{
    const uint8_t *at = record->headers;
    int64_t count = 0;
    Field key = {NULL, NULL}, value = {NULL, NULL};
    (void)read_varint(&at, record->end, 32, &count);
    measure->headers += count;
    while (count--) {
        (void)read_field(&at, record->end, &key, NULL);
        (void)read_field(&at, record->end, &value, NULL);
        measure->header_key_bytes += key.end - key.start;
        measure->header_value_bytes += value.end - value.start;
    }
}

static Fault measure(const Payload *payload, const Wanted *wanted, Measure *sum)
{
    const uint8_t *at = payload->start;
    Record record;
    Fault fault = count_is_possible(payload);
    if (fault.reason)
        return fault;
    for (int64_t index = 0; index < payload->count; index++, at = record.end) {
        const char *reason = read_record(at, payload->end, &record);
        if (reason)
            return (Fault){index, reason};
        if (!is_wanted(wanted, &record))
            continue;
        sum->rows++;
        sum->key_bytes += record.key.end - record.key.start;
        sum->value_bytes += record.value.end - record.value.start;
        sum->null_keys += !record.key.start;
        sum->null_values += !record.value.start;
        if (record.end - record.headers > 1)
            measure_headers(&record, sum);
    }
    return all_consumed(payload, at);
}

PyObject *py_measure_columns(PyObject *module, PyObject *args, PyObject *names)
{
    static char *known[] = {"payload", "count", "first", "end", NULL};
    Py_buffer data;
    long long count;
    Wanted wanted = {0};
    Measure sum = {0};
    Fault fault;
    if (!PyArg_ParseTupleAndKeywords(args, names, "y*LLL", known, &data, &count, &wanted.first, &wanted.end))
        return NULL;
    Payload payload = payload_of(&data, count);
    Py_BEGIN_ALLOW_THREADS
    fault = measure(&payload, &wanted, &sum);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    if (fault.reason)
        return raise_bad_record(module, fault);
    return Py_BuildValue("LLLLLLLL", (long long)sum.rows, (long long)sum.key_bytes, (long long)sum.value_bytes,
                         (long long)sum.null_keys, (long long)sum.null_values, (long long)sum.headers,
                         (long long)sum.header_key_bytes, (long long)sum.header_value_bytes);
}

/* ---- Filling them ---- */

static PyObject *row_or_error(PyObject *module, Fault fault, Py_ssize_t row)
{
    if (!fault.reason)
        return PyLong_FromSsize_t(row);
    if (fault.reason[0] != FITS_NOT[0] || strcmp(fault.reason, FITS_NOT))
        return raise_bad_record(module, fault);
    PyErr_SetString(PyExc_ValueError, FITS_NOT);
    return NULL;
}

static Fault fill(const Payload *payload, const Wanted *wanted, Py_ssize_t *row, Column *key, Column *value,
                  const Py_buffer *offsets, const Py_buffer *timestamps)
{
    const uint8_t *at = payload->start;
    Record record;
    Fault fault = count_is_possible(payload);
    if (fault.reason)
        return fault;
    for (int64_t index = 0; index < payload->count; index++, at = record.end) {
        const char *reason = read_record(at, payload->end, &record);
        if (reason)
            return (Fault){index, reason};
        if (!is_wanted(wanted, &record))
            continue;
        uint64_t delta = wanted->same_time ? 0 : (uint64_t)record.timestamp_delta;
        int64_t timestamp = (int64_t)((uint64_t)wanted->base_timestamp + delta);
        int64_t offset = (int64_t)((uint64_t)wanted->base_offset + (uint64_t)record.offset_delta);
        if (put_cell(key, *row, &record.key) || put_cell(value, *row, &record.value) ||
            put_int64(offsets, *row, offset) || put_int64(timestamps, *row, micros(timestamp)))
            return (Fault){index, FITS_NOT};
        ++*row;
    }
    return all_consumed(payload, at);
}

PyObject *py_fill_columns(PyObject *module, PyObject *args, PyObject *names)
{
    static char *known[] = {"payload", "count", "first", "end", "row", "base_offset", "base_timestamp", "same_time",
                            "key", "value", "offsets", "timestamps", NULL};
    enum { PAYLOAD, KEY, VALUE = KEY + 3, OFFSETS = VALUE + 3, TIMESTAMPS, BUFFERS };
    Py_buffer b[BUFFERS];
    long long count;
    Py_ssize_t row;
    Wanted wanted;
    Fault fault;
    if (!PyArg_ParseTupleAndKeywords(args, names, "y*LLLnLLp(w*w*w*)(w*w*w*)w*w*", known, &b[PAYLOAD], &count,
                                     &wanted.first, &wanted.end, &row, &wanted.base_offset, &wanted.base_timestamp,
                                     &wanted.same_time, &b[KEY], &b[KEY + 1], &b[KEY + 2], &b[VALUE], &b[VALUE + 1],
                                     &b[VALUE + 2], &b[OFFSETS], &b[TIMESTAMPS]))
        return NULL;
    Payload payload = payload_of(&b[PAYLOAD], count);
    Column key = column_of(&b[KEY], &b[KEY + 1], &b[KEY + 2]);
    Column value = column_of(&b[VALUE], &b[VALUE + 1], &b[VALUE + 2]);
    if (row < 0)
        fault = (Fault){-1, FITS_NOT};
    else {
        Py_BEGIN_ALLOW_THREADS
        fault = fill(&payload, &wanted, &row, &key, &value, &b[OFFSETS], &b[TIMESTAMPS]);
        Py_END_ALLOW_THREADS
    }
    for (int i = 0; i < BUFFERS; i++)
        PyBuffer_Release(&b[i]);
    return row_or_error(module, fault, row);
}

/* Headers are a list a row: where each list ends, and one more row of key and value for each header. */
static int put_list(const Record *record, Py_ssize_t row, Column *lists, Column *key, Column *value)
{
    const uint8_t *at = record->headers;
    int64_t count = 0;
    Field field = {NULL, NULL};
    if (4 * ((int64_t)row + 2) > lists->offsets_bytes)
        return -1;
    int64_t element = offset_at(lists, row);
    if (element < 0 || read_varint(&at, record->end, 32, &count))
        return -1;
    for (; count--; element++) {
        if (read_field(&at, record->end, &field, FITS_NOT) || put_cell(key, element, &field))
            return -1;
        if (read_field(&at, record->end, &field, FITS_NOT) || put_cell(value, element, &field))
            return -1;
    }
    return set_offset(lists, row + 1, element);
}

static Fault fill_lists(const Payload *payload, const Wanted *wanted, Py_ssize_t *row, Column *lists, Column *key,
                        Column *value)
{
    const uint8_t *at = payload->start;
    Record record;
    Fault fault = count_is_possible(payload);
    if (fault.reason)
        return fault;
    for (int64_t index = 0; index < payload->count; index++, at = record.end) {
        const char *reason = read_record(at, payload->end, &record);
        if (reason)
            return (Fault){index, reason};
        if (!is_wanted(wanted, &record))
            continue;
        if (put_list(&record, *row, lists, key, value))
            return (Fault){index, FITS_NOT};
        ++*row;
    }
    return all_consumed(payload, at);
}

PyObject *py_fill_headers(PyObject *module, PyObject *args, PyObject *names)
{
    static char *known[] = {"payload", "count", "first", "end", "row", "lists", "key", "value", NULL};
    enum { PAYLOAD, LISTS, KEY, VALUE = KEY + 2, BUFFERS = VALUE + 3 };
    Py_buffer b[BUFFERS];
    long long count;
    Py_ssize_t row;
    Wanted wanted = {0};
    Fault fault;
    if (!PyArg_ParseTupleAndKeywords(args, names, "y*LLLnw*(w*w*)(w*w*w*)", known, &b[PAYLOAD], &count, &wanted.first,
                                     &wanted.end, &row, &b[LISTS], &b[KEY], &b[KEY + 1], &b[VALUE], &b[VALUE + 1],
                                     &b[VALUE + 2]))
        return NULL;
    Payload payload = payload_of(&b[PAYLOAD], count);
    Column lists = {b[LISTS].buf, NULL, NULL, b[LISTS].len, 0, 0};
    Column key = column_of(&b[KEY], &b[KEY + 1], NULL);
    Column value = column_of(&b[VALUE], &b[VALUE + 1], &b[VALUE + 2]);
    if (row < 0)
        fault = (Fault){-1, FITS_NOT};
    else {
        Py_BEGIN_ALLOW_THREADS
        fault = fill_lists(&payload, &wanted, &row, &lists, &key, &value);
        Py_END_ALLOW_THREADS
    }
    for (int i = 0; i < BUFFERS; i++)
        PyBuffer_Release(&b[i]);
    return row_or_error(module, fault, row);
}

/* ---- And back ---- */

/* An Arrow binary array: rows count from the start of its buffers. */
typedef struct {
    int is_null, nullable; /* is_null: every row is */
    Py_buffer offsets, data, valid;
} Source;

static int take_source(PyObject *column, Source *source)
{
    PyObject *valid;
    memset(source, 0, sizeof *source);
    if (column == Py_None) {
        source->is_null = 1;
        return 0;
    }
    if (!PyTuple_Check(column)) {
        PyErr_SetString(PyExc_TypeError, "a column is None or (offsets, data, validity)");
        return -1;
    }
    if (!PyArg_ParseTuple(column, "y*y*O", &source->offsets, &source->data, &valid))
        return -1;
    source->nullable = valid != Py_None;
    if (source->nullable && PyObject_GetBuffer(valid, &source->valid, PyBUF_SIMPLE)) {
        PyBuffer_Release(&source->offsets);
        PyBuffer_Release(&source->data);
        return -1;
    }
    return 0;
}

static void release_source(Source *source)
{
    if (source->is_null)
        return;
    PyBuffer_Release(&source->offsets);
    PyBuffer_Release(&source->data);
    if (source->nullable)
        PyBuffer_Release(&source->valid);
}

static inline int cell(const Source *source, int64_t row, Field *field)
{
    int32_t bounds[2];
    *field = (Field){NULL, NULL};
    if (source->is_null)
        return 0;
    if (4 * (row + 2) > source->offsets.len || (source->nullable && row >> 3 >= source->valid.len))
        return -1;
    if (source->nullable && !(((const uint8_t *)source->valid.buf)[row >> 3] >> (row & 7) & 1))
        return 0;
    memcpy(bounds, (const uint8_t *)source->offsets.buf + 4 * row, 8);
    if (bounds[0] < 0 || bounds[1] < bounds[0] || bounds[1] > source->data.len)
        return -1;
    /* An empty value is not null, even when there is no data at all to point at. */
    const uint8_t *data = source->data.buf ? source->data.buf : (const uint8_t *)"";
    *field = (Field){data + bounds[0], data + bounds[1]};
    return 0;
}

static inline int64_t varint_bytes(int64_t value)
{
    uint64_t raw = (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
    int64_t bytes = 1;
    while (raw >>= 7)
        bytes++;
    return bytes;
}

static inline int64_t field_bytes(const Field *field)
{
    int64_t length = field->end - field->start;
    return field->start ? varint_bytes(length) + length : 1;
}

typedef struct {
    Source key, value;
    const uint8_t *timestamps; /* NULL: all at `timestamp` */
    int64_t timestamps_bytes, timestamp, base_timestamp, max_timestamp;
} Sources;

typedef struct {
    Field key, value;
    int64_t timestamp_delta, timestamp, body_bytes;
} Row;

static inline int read_row(const Sources *sources, int64_t first, int64_t row, Row *out)
{
    out->timestamp = sources->timestamp;
    if (sources->timestamps) {
        if (8 * (row + 1) > sources->timestamps_bytes)
            return -1;
        memcpy(&out->timestamp, sources->timestamps + 8 * row, 8);
    }
    if (cell(&sources->key, row, &out->key) || cell(&sources->value, row, &out->value))
        return -1;
    out->timestamp_delta = (int64_t)((uint64_t)out->timestamp - (uint64_t)sources->base_timestamp);
    out->body_bytes = 2 + varint_bytes(out->timestamp_delta) + varint_bytes(row - first) + field_bytes(&out->key) +
                      field_bytes(&out->value);
    return out->body_bytes > INT32_MAX ? -1 : 0;
}

/* Rows up to max_bytes of records, at least one: where they end (and how many bytes), or -1. */
static int64_t measure_rows(Sources *sources, int64_t first, int64_t end, int64_t max_bytes, int64_t *bytes)
{
    Row row;
    int64_t next = first;
    *bytes = 0;
    for (; next < end && next - first < INT32_MAX; next++) {
        if (next == first) { /* the first one's time is the base */
            if (read_row(sources, first, next, &row))
                return -1;
            sources->base_timestamp = sources->max_timestamp = row.timestamp;
        }
        if (read_row(sources, first, next, &row))
            return -1;
        int64_t more = varint_bytes(row.body_bytes) + row.body_bytes;
        if (next > first && *bytes + more > max_bytes)
            break;
        *bytes += more;
        if (row.timestamp > sources->max_timestamp)
            sources->max_timestamp = row.timestamp;
    }
    return next;
}

static inline uint8_t *write_field(uint8_t *at, const Field *field)
{
    if (!field->start) {
        *at++ = 1; /* -1 */
        return at;
    }
    size_t length = (size_t)(field->end - field->start);
    at = put_varint(at, (int64_t)length);
    memcpy(at, field->start, length);
    return at + length;
}

/* Reads the rows again; should they have changed since they were measured, it still stays within `limit`. */
static int write_rows(const Sources *sources, int64_t first, int64_t end, uint8_t *at, const uint8_t *limit)
{
    Row row;
    for (int64_t next = first; next < end; next++) {
        if (read_row(sources, first, next, &row) || row.body_bytes + varint_bytes(row.body_bytes) > limit - at)
            return -1;
        at = put_varint(at, row.body_bytes);
        *at++ = 0; /* attributes: none are defined */
        at = put_varint(put_varint(at, row.timestamp_delta), next - first);
        at = write_field(write_field(at, &row.key), &row.value);
        *at++ = 0; /* headers */
    }
    return at == limit ? 0 : -1;
}

static PyObject *encode_rows(Sources *sources, int64_t first, int64_t end, int64_t max_bytes)
{
    int64_t bytes = 0;
    int64_t next = first < 0 ? -1 : measure_rows(sources, first, end, max_bytes, &bytes);
    PyObject *payload = next < 0 ? NULL : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    uint8_t *at = payload ? (uint8_t *)PyBytes_AsString(payload) : NULL;
    if (next < 0 || (at && write_rows(sources, first, next, at, at + bytes))) {
        Py_XDECREF(payload);
        PyErr_SetString(PyExc_ValueError, FITS_NOT);
        return NULL;
    }
    if (!payload)
        return NULL;
    return Py_BuildValue("NLLL", payload, (long long)next, (long long)sources->base_timestamp,
                         (long long)sources->max_timestamp);
}

PyObject *py_encode_columns(PyObject *Py_UNUSED(module), PyObject *args, PyObject *names)
{
    static char *known[] = {"first", "end", "max_bytes", "key", "value", "timestamps", "timestamp", NULL};
    long long first, end, max_bytes, timestamp = -1;
    PyObject *key, *value, *timestamps, *result = NULL;
    Py_buffer times = {0};
    Sources sources;
    if (!PyArg_ParseTupleAndKeywords(args, names, "LLLOOO|L", known, &first, &end, &max_bytes, &key, &value,
                                     &timestamps, &timestamp))
        return NULL;
    memset(&sources, 0, sizeof sources);
    sources.timestamp = sources.base_timestamp = sources.max_timestamp = timestamp;
    if (timestamps != Py_None) {
        if (PyObject_GetBuffer(timestamps, &times, PyBUF_SIMPLE))
            return NULL;
        sources.timestamps = times.buf ? times.buf : (const uint8_t *)"";
        sources.timestamps_bytes = times.len;
    }
    if (!take_source(key, &sources.key)) {
        if (!take_source(value, &sources.value)) {
            result = encode_rows(&sources, first, end, max_bytes);
            release_source(&sources.value);
        }
        release_source(&sources.key);
    }
    if (timestamps != Py_None)
        PyBuffer_Release(&times);
    return result;
}

/* ---- Which partition each key goes to ---- */

static int partition_rows(const Source *key, int64_t rows, int32_t partitions, uint8_t *out)
{
    Field field;
    for (int64_t row = 0; row < rows; row++) {
        if (cell(key, row, &field))
            return -1;
        int32_t partition = -1;
        if (field.start)
            partition = (murmur2(field.start, field.end - field.start) & INT32_MAX) % partitions;
        memcpy(out + 4 * row, &partition, 4);
    }
    return 0;
}

PyObject *py_partition_column(PyObject *Py_UNUSED(module), PyObject *args, PyObject *names)
{
    static char *known[] = {"rows", "key", "partitions", NULL};
    long long rows;
    int partitions;
    PyObject *key, *result = NULL;
    Source source;
    if (!PyArg_ParseTupleAndKeywords(args, names, "LOi", known, &rows, &key, &partitions))
        return NULL;
    memset(&source, 0, sizeof source);
    if (take_source(key, &source))
        return NULL;
    if (rows >= 0 && rows <= INT32_MAX && partitions > 0) {
        if (!(result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(4 * rows)))) {
            release_source(&source);
            return NULL;
        }
        if (partition_rows(&source, rows, partitions, (uint8_t *)PyBytes_AsString(result)))
            Py_CLEAR(result);
    }
    release_source(&source);
    if (!result)
        PyErr_SetString(PyExc_ValueError, FITS_NOT);
    return result;
}
