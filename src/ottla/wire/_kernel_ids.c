/* Records whose key or value names no schema that is allowed. kernel_ids_py.py is the same in Python.
 *
 * A schema is named by a zero byte and a big-endian id before the payload, or by a header that holds a zero byte and
 * the id, or a one and a GUID. Null keys and values name none and need none. */
#include "_kernel.h"

#define STRAYS_MAX 1000
#define ID_BYTES 5
#define GUID_BYTES 16
#define GUID_HEADER_BYTES (1 + GUID_BYTES)
#define NO_ID (-1)
#define UNKNOWN_GUID (-2)
#define WITHOUT_GIL_FROM ((Py_ssize_t)128 * 1024)

typedef struct {
    int is_key;
    const char *header;
    Py_ssize_t header_bytes;
    const uint8_t *ids; /* int32, native, sorted */
    int64_t id_count;
    const uint8_t *guids; /* 16 bytes each, sorted */
    int64_t guid_count;
    int32_t last; /* the id that was allowed last: most records of a batch have the same */
    int has_last;
} Allowed;

static int has_id(Allowed *allowed, int32_t id)
{
    int64_t low = 0, high = allowed->id_count;
    if (allowed->has_last && allowed->last == id)
        return 1;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int32_t there;
        memcpy(&there, allowed->ids + middle * (int64_t)sizeof there, sizeof there);
        if (there == id) {
            allowed->last = id;
            return allowed->has_last = 1;
        }
        if (there < id)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

static int has_guid(const Allowed *allowed, const uint8_t *guid)
{
    int64_t low = 0, high = allowed->guid_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        int order = memcmp(allowed->guids + middle * GUID_BYTES, guid, GUID_BYTES);
        if (!order)
            return 1;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return 0;
}

/* Whether the id at the start of the field is allowed; if not, *stray tells which it is. */
static int is_named(Allowed *allowed, const Field *field, int64_t *stray)
{
    const uint8_t *at = field->start;
    if (field->end - at < ID_BYTES || *at) {
        *stray = NO_ID;
        return 0;
    }
    uint32_t id = (uint32_t)at[1] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 8 | at[4];
    *stray = (int32_t)id < 0 ? NO_ID : (int64_t)(int32_t)id;
    return *stray != NO_ID && has_id(allowed, (int32_t)id);
}

static int is_named_by_header(Allowed *allowed, const Field *value, int64_t *stray)
{
    /* Behind the GUID or id, a Protobuf value has the path to its message. */
    if (value->start && value->end - value->start >= GUID_HEADER_BYTES && *value->start == 1) {
        *stray = UNKNOWN_GUID;
        return has_guid(allowed, value->start + 1);
    }
    if (value->start && value->end - value->start >= ID_BYTES)
        return is_named(allowed, value, stray);
    *stray = NO_ID;
    return 0;
}

/* The record was read before: its headers are whole. Where several have the name, all of them must be right. */
static int is_allowed(Allowed *allowed, const Record *record, int64_t *stray)
{
    const Field *field = allowed->is_key ? &record->key : &record->value;
    const uint8_t *at = record->headers;
    int64_t count = 0;
    int named = 0;
    if (!field->start)
        return 1;
    if (record->end - at > 1) /* one byte: there are none */
        read_varint(&at, record->end, 32, &count);
    for (Field name, value; count > 0; count--) {
        read_field(&at, record->end, &name, "");
        read_field(&at, record->end, &value, "");
        if (name.end - name.start != allowed->header_bytes ||
            memcmp(name.start, allowed->header, (size_t)allowed->header_bytes))
            continue;
        if (!is_named_by_header(allowed, &value, stray))
            return 0;
        named = 1;
    }
    return named || is_named(allowed, field, stray);
}

static Fault find_strays(const Payload *payload, Allowed *allowed, int64_t *rows, int64_t limit, int64_t *total)
{
    const uint8_t *at = payload->start;
    Record record;
    Fault fault = count_is_possible(payload);
    *total = 0;
    if (fault.reason)
        return fault;
    for (int64_t index = 0; index < payload->count; index++, at = record.end) {
        int64_t stray = NO_ID;
        const char *reason = read_record(at, payload->end, &record);
        if (reason)
            return (Fault){index, reason};
        if (is_allowed(allowed, &record, &stray))
            continue;
        if (*total < limit) {
            rows[2 * *total] = index;
            rows[2 * *total + 1] = stray;
        }
        ++*total;
    }
    return all_consumed(payload, at);
}

PyObject *py_strays(PyObject *module, PyObject *args, PyObject *names)
{
    static char *known[] = {"payload", "count", "limit", "is_key", "ids", "guids", NULL};
    Py_buffer data, ids, guids;
    long long count, limit;
    int is_key;
    int64_t rows[2 * STRAYS_MAX], total;
    Fault fault;
    if (!PyArg_ParseTupleAndKeywords(args, names, "y*LLpy*y*", known, &data, &count, &limit, &is_key, &ids, &guids))
        return NULL;
    Payload payload = payload_of(&data, count);
    const char *header = is_key ? "__key_schema_id" : "__value_schema_id";
    Allowed allowed = {is_key, header, (Py_ssize_t)strlen(header), ids.buf, ids.len / (Py_ssize_t)sizeof(int32_t),
                       guids.buf, guids.len / GUID_BYTES, 0, 0};
    limit = limit < 0 ? 0 : limit > STRAYS_MAX ? STRAYS_MAX : limit;
    if (data.len < WITHOUT_GIL_FROM)
        fault = find_strays(&payload, &allowed, rows, limit, &total);
    else {
        Py_BEGIN_ALLOW_THREADS
        fault = find_strays(&payload, &allowed, rows, limit, &total);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&ids);
    PyBuffer_Release(&guids);
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
