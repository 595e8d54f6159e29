/* What touches every byte of every batch. kernel_py.py is the same in Python: same results, same refusals.
 *
 * Every byte comes from the network or a disk. Positions are compared as "how much is left", never by adding
 * a length that was read to a pointer, so that no length can wrap around. Nothing here keeps a reference to a
 * buffer after it returns; large inputs are processed without the GIL. */
#include "_kernel.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif

#define WITHOUT_GIL_FROM ((Py_ssize_t)128 * 1024) /* below this, handing the GIL over costs more than it gives */
#define INDEX_FIELDS 9

typedef struct {
    PyObject *corrupt_batch, *wrong_magic, *bad_record;
    PyObject *row_types[ROW_TYPES];
} State;

/* ---- All records of a batch ---- */

typedef struct {
    int64_t max_timestamp_delta, offset_delta_of_max, last_offset_delta, first_null_key, min_timestamp_delta;
} Walked;

static Fault walk_records(const Payload *payload, int consecutive, Walked *walked)
{
    const uint8_t *at = payload->start;
    Record record;
    Fault fault = count_is_possible(payload);
    *walked = (Walked){0, -1, -1, -1, 0};
    if (fault.reason)
        return fault;
    for (int64_t index = 0; index < payload->count; index++, at = record.end) {
        const char *reason = read_record(at, payload->end, &record);
        if (reason)
            return (Fault){index, reason};
        if (consecutive && record.offset_delta != index)
            return (Fault){index, "offset delta is not consecutive"};
        if (record.offset_delta <= walked->last_offset_delta)
            return (Fault){index, "offset delta does not rise"};
        walked->last_offset_delta = record.offset_delta;
        if (!index || record.timestamp_delta > walked->max_timestamp_delta) {
            walked->max_timestamp_delta = record.timestamp_delta;
            walked->offset_delta_of_max = record.offset_delta;
        }
        if (!index || record.timestamp_delta < walked->min_timestamp_delta)
            walked->min_timestamp_delta = record.timestamp_delta;
        if (!record.key.start && walked->first_null_key < 0)
            walked->first_null_key = index;
    }
    return all_consumed(payload, at);
}

static inline int64_t position_of(const Payload *payload, const uint8_t *at)
{
    return at ? at - payload->start : -1;
}

static Fault index_records(const Payload *payload, char *rows)
{
    const uint8_t *at = payload->start;
    Record record;
    for (int64_t index = 0; index < payload->count; index++, at = record.end) {
        const char *reason = read_record(at, payload->end, &record);
        if (reason)
            return (Fault){index, reason};
        int64_t row[INDEX_FIELDS] = {
            record.offset_delta,
            record.timestamp_delta,
            position_of(payload, record.key.start),
            position_of(payload, record.key.end),
            position_of(payload, record.value.start),
            position_of(payload, record.value.end),
            position_of(payload, record.headers),
            position_of(payload, at),
            position_of(payload, record.end),
        };
        memcpy(rows, row, sizeof row);
        rows += sizeof row;
    }
    return all_consumed(payload, at);
}

PyObject *raise_bad_record(PyObject *module, Fault fault)
{
    State *state = PyModule_GetState(module);
    PyObject *error = PyObject_CallFunction(state->bad_record, "Ls", (long long)fault.index, fault.reason);
    if (error) {
        PyErr_SetObject(state->bad_record, error);
        Py_DECREF(error);
    }
    return NULL;
}

/* ---- Batch headers ---- */

#define HEADER_BYTES 61
#define LENGTH_PREFIX 12 /* base offset and length: what the batch's length does not count */
#define MAGIC_AT 16
#define CRC_FROM 21
#define CODEC_MASK 7

typedef struct {
    const uint8_t *start;
    int64_t size;
    uint32_t crc;
    int16_t attributes;
    int32_t last_offset_delta, count;
} Batch;

static uint32_t big32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static long long big64(const uint8_t *at)
{
    return (long long)((uint64_t)big32(at) << 32 | big32(at + 4));
}

static int big16(const uint8_t *at)
{
    return (int16_t)(uint16_t)(at[0] << 8 | at[1]);
}

/* 0, or -1 with an exception. */
static int read_batch(PyObject *module, const uint8_t *at, const uint8_t *end, Batch *batch)
{
    State *state = PyModule_GetState(module);
    if (end - at > MAGIC_AT && at[MAGIC_AT] != 2) { /* batches of an old format may be smaller than our header */
        PyErr_SetString(state->wrong_magic, "The batch's magic is not 2");
        return -1;
    }
    if (end - at < HEADER_BYTES) {
        PyErr_SetString(state->corrupt_batch, "The buffer ends within a batch header");
        return -1;
    }
    int32_t length = (int32_t)big32(at + 8);
    *batch = (Batch){at, (int64_t)length + LENGTH_PREFIX, big32(at + 17), (int16_t)big16(at + 21),
                     (int32_t)big32(at + 23), (int32_t)big32(at + 57)};
    if (length < HEADER_BYTES - LENGTH_PREFIX) {
        PyErr_SetString(state->corrupt_batch, "The batch is smaller than its header");
        return -1;
    }
    if (batch->count < 0 || batch->last_offset_delta < 0) {
        PyErr_SetString(state->corrupt_batch, "The batch's record count or last offset delta is negative");
        return -1;
    }
    return 0;
}

static PyObject *header_tuple(const Batch *batch)
{
    const uint8_t *at = batch->start;
    return Py_BuildValue("LLiiIiiLLLiii", big64(at), (long long)batch->size, (int)big32(at + 12), (int)at[MAGIC_AT],
                         (unsigned int)batch->crc, (int)batch->attributes, (int)batch->last_offset_delta,
                         big64(at + 27), big64(at + 35), big64(at + 43), big16(at + 51), (int)big32(at + 53),
                         (int)batch->count);
}

/* Where in the buffer to start: NULL with an exception for a negative position. Beyond the end is the end. */
static const uint8_t *start_at(const Py_buffer *buffer, Py_ssize_t position)
{
    if (position < 0) {
        PyErr_SetString(PyExc_ValueError, "negative position");
        return NULL;
    }
    return (const uint8_t *)buffer->buf + (position < buffer->len ? position : buffer->len);
}

/* Reads the header and checks that the batch is whole with the CRC it claims. 0, or -1 with an exception. */
static int check_batch(PyObject *module, const uint8_t *at, const uint8_t *end, Batch *batch)
{
    State *state = PyModule_GetState(module);
    uint32_t crc;
    if (read_batch(module, at, end, batch))
        return -1;
    if (batch->size > end - at) {
        PyErr_SetString(state->corrupt_batch, "The buffer ends within the batch");
        return -1;
    }
    if (batch->size < WITHOUT_GIL_FROM)
        crc = crc32c(at + CRC_FROM, (size_t)batch->size - CRC_FROM, 0);
    else {
        Py_BEGIN_ALLOW_THREADS
        crc = crc32c(at + CRC_FROM, (size_t)batch->size - CRC_FROM, 0);
        Py_END_ALLOW_THREADS
    }
    if (crc != batch->crc) {
        PyErr_SetString(state->corrupt_batch, "The batch's CRC does not match");
        return -1;
    }
    return 0;
}

static PyObject *walked_tuple(PyObject *module, const Payload *payload, int consecutive)
{
    Walked walked;
    Fault fault;
    if (payload->end - payload->start < WITHOUT_GIL_FROM)
        fault = walk_records(payload, consecutive, &walked);
    else {
        Py_BEGIN_ALLOW_THREADS
        fault = walk_records(payload, consecutive, &walked);
        Py_END_ALLOW_THREADS
    }
    if (fault.reason)
        return raise_bad_record(module, fault);
    return Py_BuildValue("LLLLL", (long long)walked.max_timestamp_delta, (long long)walked.offset_delta_of_max,
                         (long long)walked.last_offset_delta, (long long)walked.first_null_key,
                         (long long)walked.min_timestamp_delta);
}

/* ---- Records out of Python objects ---- */

static int put_field(Output *output, PyObject *content)
{
    if (content == Py_None)
        return put_number(output, -1);
    if (PyBytes_Check(content))
        return put_bytes(output, PyBytes_AsString(content), PyBytes_Size(content));
    Py_buffer view;
    if (PyObject_GetBuffer(content, &view, PyBUF_SIMPLE))
        return -1;
    int failed = put_bytes(output, view.buf, view.len);
    PyBuffer_Release(&view);
    return failed;
}

static int put_header(Output *output, PyObject *item)
{
    PyObject *pair = PySequence_Tuple(item);
    int failed = -1;
    Py_ssize_t size;
    if (!pair)
        return -1;
    if (PyTuple_Size(pair) != 2)
        PyErr_SetString(PyExc_ValueError, "a header is a pair");
    else {
        const char *key = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(pair, 0), &size);
        failed = !key || put_bytes(output, key, size) || put_field(output, PyTuple_GetItem(pair, 1)) ? -1 : 0;
    }
    Py_DECREF(pair);
    return failed;
}

int put_headers(Output *output, PyObject *headers)
{
    PyObject *pairs = PySequence_Tuple(headers);
    if (!pairs)
        return -1;
    Py_ssize_t count = PyTuple_Size(pairs);
    int failed = put_number(output, count);
    for (Py_ssize_t i = 0; i < count && !failed; i++)
        failed = put_header(output, PyTuple_GetItem(pairs, i));
    Py_DECREF(pairs);
    return failed;
}

/* A length's varint comes before what it counts: leave room for the longest, then close the gap. */
#define LENGTH_BYTES_MAX 5

static int put_record(Output *output, PyObject *record, int64_t timestamp_delta, int64_t offset_delta)
{
    if (reserve(output, LENGTH_BYTES_MAX + 1 + 2 * VARINT_BYTES_MAX))
        return -1;
    size_t start = output->used, body = start + LENGTH_BYTES_MAX;
    uint8_t *at = output->data + body;
    *at++ = 0; /* attributes: none are defined */
    at = put_varint(put_varint(at, timestamp_delta), offset_delta);
    output->used = (size_t)(at - output->data);
    if (put_field(output, PyTuple_GetItem(record, 2)) || put_field(output, PyTuple_GetItem(record, 3)) ||
        put_headers(output, PyTuple_GetItem(record, 4)))
        return -1;
    size_t length = output->used - body;
    if (length > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a record is larger than 2 GiB");
        return -1;
    }
    at = put_varint(output->data + start, (int64_t)length);
    memmove(at, output->data + body, length);
    output->used = (size_t)(at - output->data) + length;
    return 0;
}

int number(PyObject *object, int64_t *value, const char *too_large)
{
    int overflow;
    *value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow)
        PyErr_SetString(PyExc_ValueError, too_large);
    return overflow || (*value == -1 && PyErr_Occurred()) ? -1 : 0;
}

static const char OFFSETS[] = "offsets of a batch rise, and span no more than 31 bits";

typedef struct {
    int64_t base_offset, base_timestamp, last, max_timestamp;
} Encoding;

static int encode_record(Output *output, PyObject *record, Py_ssize_t index, Encoding *state)
{
    int64_t offset, timestamp;
    if (!PyTuple_Check(record) || PyTuple_Size(record) != 5) {
        PyErr_SetString(PyExc_TypeError, "a record is a tuple of offset, timestamp, key, value and headers");
        return -1;
    }
    if (number(PyTuple_GetItem(record, 1), &timestamp, "a timestamp does not fit in 64 bits") ||
        number(PyTuple_GetItem(record, 0), &offset, OFFSETS))
        return -1;
    uint64_t delta = offset == -1 ? (uint64_t)(state->last + 1) : (uint64_t)offset - (uint64_t)state->base_offset;
    if ((offset != -1 && offset < state->base_offset) || delta > INT32_MAX || (int64_t)delta <= state->last) {
        PyErr_SetString(PyExc_ValueError, OFFSETS);
        return -1;
    }
    state->last = (int64_t)delta;
    if (!index || timestamp > state->max_timestamp)
        state->max_timestamp = timestamp;
    return put_record(output, record, (int64_t)((uint64_t)timestamp - (uint64_t)state->base_timestamp), state->last);
}

/* ---- The functions as Python sees them ---- */

static PyObject *py_crc(PyObject *args, PyObject *names, uint32_t (*update)(uint32_t, const uint8_t *, size_t))
{
    static char *known[] = {"data", "crc", NULL};
    Py_buffer data;
    unsigned int crc = 0;
    if (!PyArg_ParseTupleAndKeywords(args, names, "y*|I", known, &data, &crc))
        return NULL;
    if (data.len < WITHOUT_GIL_FROM)
        crc = ~update(~crc, data.buf, (size_t)data.len);
    else {
        Py_BEGIN_ALLOW_THREADS
        crc = ~update(~crc, data.buf, (size_t)data.len);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return PyLong_FromUnsignedLong(crc);
}

static PyObject *py_crc32c(PyObject *Py_UNUSED(module), PyObject *args, PyObject *names)
{
    return py_crc(args, names, crc_update);
}

static PyObject *py_crc32c_portable(PyObject *Py_UNUSED(module), PyObject *args, PyObject *names)
{
    return py_crc(args, names, crc_portable);
}

static PyObject *py_walk(PyObject *module, PyObject *args, PyObject *names)
{
    static char *known[] = {"payload", "count", "consecutive", NULL};
    Py_buffer data;
    long long count;
    int consecutive;
    if (!PyArg_ParseTupleAndKeywords(args, names, "y*L$p", known, &data, &count, &consecutive))
        return NULL;
    Payload payload = payload_of(&data, count);
    PyObject *result = walked_tuple(module, &payload, consecutive);
    PyBuffer_Release(&data);
    return result;
}

static PyObject *py_index(PyObject *module, PyObject *args, PyObject *names)
{
    static char *known[] = {"payload", "count", NULL};
    Py_buffer data;
    long long count;
    PyObject *rows = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, names, "y*L", known, &data, &count))
        return NULL;
    Payload payload = payload_of(&data, count);
    Fault fault = count_is_possible(&payload);
    if (!fault.reason) {
        rows = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)count * INDEX_FIELDS * (Py_ssize_t)sizeof(int64_t));
        if (rows)
            fault = index_records(&payload, PyBytes_AsString(rows));
    }
    PyBuffer_Release(&data);
    if (fault.reason) {
        Py_XDECREF(rows);
        return raise_bad_record(module, fault);
    }
    return rows;
}

static PyObject *py_find_record(PyObject *module, PyObject *args, PyObject *names)
{
    static char *known[] = {"payload", "count", "base_timestamp", "target", "from_delta", NULL};
    Py_buffer data;
    long long count, base_timestamp, target, from_delta = 0;
    if (!PyArg_ParseTupleAndKeywords(args, names, "y*LLL|L", known, &data, &count, &base_timestamp, &target,
                                     &from_delta))
        return NULL;
    Payload payload = payload_of(&data, count);
    const uint8_t *at = payload.start;
    PyObject *found = NULL;
    Record record;
    Fault fault = count_is_possible(&payload);
    for (int64_t index = 0; !fault.reason && index < count; index++, at = record.end) {
        fault = (Fault){index, read_record(at, payload.end, &record)};
        if (fault.reason)
            break;
        long long timestamp = (long long)((uint64_t)base_timestamp + (uint64_t)record.timestamp_delta);
        if (timestamp >= target && record.offset_delta >= from_delta) {
            found = Py_BuildValue("LL", (long long)record.offset_delta, timestamp);
            PyBuffer_Release(&data);
            return found;
        }
    }
    if (!fault.reason)
        fault = all_consumed(&payload, at);
    PyBuffer_Release(&data);
    if (fault.reason)
        return raise_bad_record(module, fault);
    Py_INCREF(Py_None);
    return Py_None;
}

typedef struct {
    int64_t low, high, exempt;
    int null_keys;
} Wanted;

static inline int is_outlier(const Record *record, const Wanted *wanted)
{
    if (wanted->null_keys)
        return !record->key.start;
    int64_t delta = record->timestamp_delta;
    return delta != wanted->exempt && (delta < wanted->low || delta > wanted->high);
}

/* How many outliers there are; the first `limit` of them as (index, timestamp delta) in `rows`. */
static Fault find_outliers(const Payload *payload, const Wanted *wanted, int64_t *rows, int64_t limit, int64_t *total)
{
    const uint8_t *at = payload->start;
    Record record;
    Fault fault = count_is_possible(payload);
    *total = 0;
    if (fault.reason)
        return fault;
    for (int64_t index = 0; index < payload->count; index++, at = record.end) {
        const char *reason = read_record(at, payload->end, &record);
        if (reason)
            return (Fault){index, reason};
        if (!is_outlier(&record, wanted))
            continue;
        if (*total < limit) {
            rows[2 * *total] = index;
            rows[2 * *total + 1] = record.timestamp_delta;
        }
        ++*total;
    }
    return all_consumed(payload, at);
}

#define OUTLIERS_MAX 1000

static PyObject *py_outliers(PyObject *module, PyObject *args, PyObject *names)
{
    static char *known[] = {"payload", "count", "limit", "low", "high", "exempt", "null_keys", NULL};
    Py_buffer data;
    long long count, limit, low = 0, high = 0, exempt = 0;
    int null_keys = 0;
    int64_t rows[2 * OUTLIERS_MAX], total;
    Fault fault;
    if (!PyArg_ParseTupleAndKeywords(args, names, "y*LL|LLLp", known, &data, &count, &limit, &low, &high, &exempt,
                                     &null_keys))
        return NULL;
    Payload payload = payload_of(&data, count);
    Wanted wanted = {low, high, exempt, null_keys};
    limit = limit < 0 ? 0 : limit > OUTLIERS_MAX ? OUTLIERS_MAX : limit;
    Py_BEGIN_ALLOW_THREADS
    fault = find_outliers(&payload, &wanted, rows, limit, &total);
    Py_END_ALLOW_THREADS
    PyBuffer_Release(&data);
    if (fault.reason)
        return raise_bad_record(module, fault);
    int64_t shown = total < limit ? total : limit;
    PyObject *found = PyList_New((Py_ssize_t)shown);
    for (int64_t i = 0; found && i < shown; i++) {
        PyObject *row = Py_BuildValue("LL", (long long)rows[2 * i], (long long)rows[2 * i + 1]);
        if (!row || PyList_SetItem(found, (Py_ssize_t)i, row))
            Py_CLEAR(found);
    }
    return found ? Py_BuildValue("LN", (long long)total, found) : NULL;
}

static PyObject *py_read_header(PyObject *module, PyObject *args, PyObject *names)
{
    static char *known[] = {"buffer", "position", NULL};
    Py_buffer buffer;
    Py_ssize_t position = 0;
    Batch batch;
    PyObject *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, names, "y*|n", known, &buffer, &position))
        return NULL;
    const uint8_t *at = start_at(&buffer, position);
    if (at && !read_batch(module, at, end_of(&buffer), &batch))
        result = header_tuple(&batch);
    PyBuffer_Release(&buffer);
    return result;
}

/* Appends (position, header). 0, or -1 with an exception. */
static int append_header(PyObject *found, const Py_buffer *buffer, const Batch *batch)
{
    PyObject *header = header_tuple(batch);
    PyObject *row = header ? Py_BuildValue("nN", (Py_ssize_t)(batch->start - (const uint8_t *)buffer->buf), header) : NULL;
    int failed = row ? PyList_Append(found, row) : -1;
    Py_XDECREF(row);
    return failed;
}

static PyObject *py_scan(PyObject *module, PyObject *args, PyObject *names)
{
    static char *known[] = {"buffer", "position", "limit", NULL};
    Py_buffer buffer;
    Py_ssize_t position = 0, limit = 1024;
    Batch batch;
    if (!PyArg_ParseTupleAndKeywords(args, names, "y*|nn", known, &buffer, &position, &limit))
        return NULL;
    const uint8_t *at = start_at(&buffer, position), *end = end_of(&buffer);
    PyObject *found = at ? PyList_New(0) : NULL;
    int failed = 0;
    for (; found && limit > 0 && end - at >= HEADER_BYTES; at += batch.size, limit--) {
        failed = read_batch(module, at, end, &batch);
        if (failed && PyList_Size(found)) { /* what is good is told first */
            PyErr_Clear();
            failed = 0;
            break;
        }
        if (failed || batch.size > end - at || (failed = append_header(found, &buffer, &batch)))
            break;
    }
    if (failed)
        Py_CLEAR(found);
    PyBuffer_Release(&buffer);
    return found;
}

static PyObject *py_check(PyObject *module, PyObject *args, PyObject *names)
{
    static char *known[] = {"buffer", "position", NULL};
    Py_buffer buffer;
    Py_ssize_t position = 0;
    Batch batch;
    PyObject *result = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, names, "y*|n", known, &buffer, &position))
        return NULL;
    const uint8_t *at = start_at(&buffer, position);
    if (at && !check_batch(module, at, end_of(&buffer), &batch))
        result = header_tuple(&batch);
    PyBuffer_Release(&buffer);
    return result;
}

static PyObject *walked_or_none(PyObject *module, const Batch *batch, int consecutive)
{
    if (batch->attributes & CODEC_MASK) {
        Py_INCREF(Py_None);
        return Py_None;
    }
    Payload payload = {batch->start + HEADER_BYTES, batch->start + batch->size, batch->count};
    return walked_tuple(module, &payload, consecutive);
}

static PyObject *py_validate(PyObject *module, PyObject *args, PyObject *names)
{
    static char *known[] = {"buffer", "position", "consecutive", NULL};
    Py_buffer buffer;
    Py_ssize_t position = 0;
    int consecutive = 1;
    Batch batch;
    PyObject *walked = NULL, *header = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, names, "y*|n$p", known, &buffer, &position, &consecutive))
        return NULL;
    const uint8_t *at = start_at(&buffer, position);
    if (at && !check_batch(module, at, end_of(&buffer), &batch) &&
        (walked = walked_or_none(module, &batch, consecutive)))
        header = header_tuple(&batch);
    PyBuffer_Release(&buffer);
    if (!header) {
        Py_XDECREF(walked);
        return NULL;
    }
    return Py_BuildValue("NN", header, walked);
}

static PyObject *py_encode(PyObject *Py_UNUSED(module), PyObject *args, PyObject *names)
{
    static char *known[] = {"records", "base_offset", "base_timestamp", NULL};
    PyObject *records, *result = NULL;
    long long base_offset = 0, base_timestamp = 0;
    Output output = {NULL, 0, 0};
    if (!PyArg_ParseTupleAndKeywords(args, names, "O|LL", known, &records, &base_offset, &base_timestamp))
        return NULL;
    records = PySequence_Tuple(records); /* nobody can change it while we read */
    if (!records)
        return NULL;
    Encoding state = {base_offset, base_timestamp, -1, -1};
    Py_ssize_t count = PyTuple_Size(records);
    int failed = 0;
    for (Py_ssize_t index = 0; index < count && !failed; index++)
        failed = encode_record(&output, PyTuple_GetItem(records, index), index, &state);
    if (!failed)
        result = Py_BuildValue("y#nLL", output.data ? (const char *)output.data : "", (Py_ssize_t)output.used, count,
                               (long long)state.last, (long long)state.max_timestamp);
    PyMem_Free(output.data);
    Py_DECREF(records);
    return result;
}

static PyObject *py_murmur2(PyObject *Py_UNUSED(module), PyObject *key)
{
    Py_buffer data;
    if (PyObject_GetBuffer(key, &data, PyBUF_SIMPLE))
        return NULL;
    int32_t hash = murmur2(data.buf, data.len);
    PyBuffer_Release(&data);
    return PyLong_FromLong(hash);
}

/* ---- The C library's memory ---- */

/* Threads would each get a heap of their own, of which up to the trim threshold stays resident for good. */
static PyObject *py_share_heap(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
#if defined(__GLIBC__)
    return PyBool_FromLong(mallopt(M_ARENA_MAX, 1));
#else
    Py_RETURN_FALSE;
#endif
}

#define FUNCTION(name) {#name, (PyCFunction)(void (*)(void))py_##name, METH_VARARGS | METH_KEYWORDS, NULL}

static PyMethodDef methods[] = {
    FUNCTION(crc32c),
    FUNCTION(crc32c_portable),
    FUNCTION(walk),
    FUNCTION(index),
    FUNCTION(find_record),
    FUNCTION(outliers),
    FUNCTION(read_header),
    FUNCTION(scan),
    FUNCTION(check),
    FUNCTION(validate),
    FUNCTION(encode),
    FUNCTION(measure_columns),
    FUNCTION(fill_columns),
    FUNCTION(fill_headers),
    FUNCTION(encode_columns),
    FUNCTION(partition_column),
    FUNCTION(strays),
    {"murmur2", py_murmur2, METH_O, NULL},
    {"tuples", py_tuples, METH_VARARGS, NULL},
    {"share_heap", py_share_heap, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static int prepare(PyObject *module)
{
    State *state = PyModule_GetState(module);
    PyObject *corruption = PyImport_ImportModule("ottla.wire.corruption");
    if (!corruption)
        return -1;
    crc_prepare();
    state->corrupt_batch = PyObject_GetAttrString(corruption, "CorruptBatch");
    state->wrong_magic = PyObject_GetAttrString(corruption, "WrongMagic");
    state->bad_record = PyObject_GetAttrString(corruption, "BadRecord");
    Py_DECREF(corruption);
    if (!state->corrupt_batch || !state->wrong_magic || !state->bad_record)
        return -1;
    return add_row_types(module, state->row_types);
}

static int traverse(PyObject *module, visitproc visit, void *arg)
{
    State *state = PyModule_GetState(module);
    Py_VISIT(state->corrupt_batch);
    Py_VISIT(state->wrong_magic);
    Py_VISIT(state->bad_record);
    for (int i = 0; i < ROW_TYPES; i++)
        Py_VISIT(state->row_types[i]);
    return 0;
}

static int clear(PyObject *module)
{
    State *state = PyModule_GetState(module);
    Py_CLEAR(state->corrupt_batch);
    Py_CLEAR(state->wrong_magic);
    Py_CLEAR(state->bad_record);
    for (int i = 0; i < ROW_TYPES; i++)
        Py_CLEAR(state->row_types[i]);
    return 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, prepare}, {0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "ottla.wire._kernel",
    .m_size = sizeof(State),
    .m_methods = methods,
    .m_slots = slots,
    .m_traverse = traverse,
    .m_clear = clear,
};

/* Whether a type is one of _kernel_rows.c's own or made from it: only those have its fields. */
int is_kernel_subtype(PyObject *type, int which)
{
    if (!PyType_Check(type))
        return 0;
    for (PyTypeObject *base = (PyTypeObject *)type; base; base = PyType_GetSlot(base, Py_tp_base)) {
        PyObject *module = PyType_GetModule(base);
        if (!module) {
            PyErr_Clear();
            continue;
        }
        if (PyModule_GetDef(module) == &definition)
            return (PyObject *)base == ((State *)PyModule_GetState(module))->row_types[which];
    }
    return 0;
}

int is_kernel_type(PyObject *object, int which)
{
    return is_kernel_subtype((PyObject *)Py_TYPE(object), which);
}

PyMODINIT_FUNC PyInit__kernel(void)
{
    return PyModuleDef_Init(&definition);
}
