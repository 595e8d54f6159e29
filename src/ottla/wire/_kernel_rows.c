/* Records on their way out: encoded the moment they are sent, into the batch that their partition is filling.
 *
 * kernel_rows_py.py is the same in Python. A send must not be interrupted between looking at a batch and writing
 * to it, by a thread that closes the batch for one. The GIL sees to that as long as nothing in between can run
 * Python code: what may (iterating over headers, allocating an object that the collector knows) comes first. */
#include "_kernel.h"

#define NOTHING (Py_INCREF(Py_None), Py_None)

static void free_object(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* ---- Room: bytes that all batches share ---- */

typedef struct {
    PyObject_HEAD
    int64_t used, max;
} Room;

static int room_takes(const Room *room, int64_t size)
{
    return !room->used || size <= room->max - room->used; /* larger than everything: goes alone */
}

static int room_init(PyObject *self, PyObject *args, PyObject *names)
{
    static char *known[] = {"bytes_max", NULL};
    long long max;
    if (!PyArg_ParseTupleAndKeywords(args, names, "L", known, &max))
        return -1;
    ((Room *)self)->max = max;
    return 0;
}

static PyObject *room_fits(PyObject *self, PyObject *size)
{
    int64_t wanted;
    if (number(size, &wanted, "a size does not fit in 64 bits"))
        return NULL;
    return PyBool_FromLong(room_takes((Room *)self, wanted));
}

static PyObject *room_take(PyObject *self, PyObject *size)
{
    int64_t wanted;
    if (number(size, &wanted, "a size does not fit in 64 bits"))
        return NULL;
    int fits = room_takes((Room *)self, wanted);
    if (fits)
        ((Room *)self)->used += wanted;
    return PyBool_FromLong(fits);
}

static PyObject *room_give(PyObject *self, PyObject *size)
{
    int64_t given;
    if (number(size, &given, "a size does not fit in 64 bits"))
        return NULL;
    ((Room *)self)->used -= given;
    return NOTHING;
}

static PyObject *room_used(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(((Room *)self)->used);
}

static PyMethodDef room_methods[] = {
    {"fits", room_fits, METH_O, NULL},
    {"take", room_take, METH_O, NULL},
    {"give", room_give, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef room_fields[] = {{"used", room_used, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot room_slots[] = {
    {Py_tp_init, room_init},
    {Py_tp_dealloc, free_object},
    {Py_tp_methods, room_methods},
    {Py_tp_getset, room_fields},
    {0, NULL},
};
static PyType_Spec room_spec = {"ottla.wire._kernel.Room", sizeof(Room), 0, Py_TPFLAGS_DEFAULT, room_slots};

/* ---- Rows: the records of one batch ---- */

typedef struct {
    PyObject_HEAD
    Output output;
    int64_t *timestamps;
    int64_t count, timestamps_max, size, bytes_max, max_timestamp;
    int closed;
} Rows;

static int rows_init(PyObject *self, PyObject *args, PyObject *names)
{
    static char *known[] = {"bytes_max", NULL};
    long long max;
    if (!PyArg_ParseTupleAndKeywords(args, names, "L", known, &max))
        return -1;
    ((Rows *)self)->bytes_max = max;
    return 0;
}

static void rows_dealloc(PyObject *self)
{
    PyMem_Free(((Rows *)self)->output.data);
    PyMem_Free(((Rows *)self)->timestamps);
    free_object(self);
}

typedef struct {
    int64_t timestamp;
    const char *key, *value; /* NULL: null */
    Py_ssize_t key_bytes, value_bytes;
    Output headers; /* encoded, with their number; nothing: none */
} Row;

static int64_t varint_bytes(int64_t value)
{
    uint64_t raw = (uint64_t)value << 1 ^ (value < 0 ? UINT64_MAX : 0);
    int64_t count = 1;
    for (; raw > 0x7f; raw >>= 7)
        count++;
    return count;
}

static int64_t field_bytes(const char *field, Py_ssize_t size)
{
    return field ? varint_bytes(size) + size : 1;
}

static uint8_t *put_row_field(uint8_t *at, const char *field, Py_ssize_t size)
{
    if (!field)
        return put_varint(at, -1);
    at = put_varint(at, size);
    memcpy(at, field, (size_t)size);
    return at + size;
}

static int64_t timestamp_delta(const Rows *rows, const Row *row)
{
    return rows->count ? (int64_t)((uint64_t)row->timestamp - (uint64_t)rows->timestamps[0]) : 0;
}

/* What follows the length of a record. */
static int64_t body_bytes(const Rows *rows, const Row *row)
{
    return 1 + varint_bytes(timestamp_delta(rows, row)) + varint_bytes(rows->count) +
           field_bytes(row->key, row->key_bytes) + field_bytes(row->value, row->value_bytes) +
           (row->headers.used ? (int64_t)row->headers.used : 1);
}

static int remember_timestamp(Rows *rows, int64_t timestamp)
{
    if (rows->count == rows->timestamps_max) {
        int64_t size = rows->timestamps_max ? rows->timestamps_max * 2 : 16;
        int64_t *grown = PyMem_Realloc(rows->timestamps, (size_t)size * sizeof(int64_t));
        if (!grown) {
            PyErr_NoMemory();
            return -1;
        }
        rows->timestamps = grown;
        rows->timestamps_max = size;
    }
    rows->timestamps[rows->count] = timestamp;
    return 0;
}

#define REFUSED (-1)
#define FAILED (-2) /* with an exception */

/* The record's index. `room` may be NULL: then nobody counts. Runs no Python code. */
static int64_t rows_add(Rows *rows, const Row *row, Room *room)
{
    int64_t body = body_bytes(rows, row), size = varint_bytes(body) + body;
    if (rows->closed || (rows->count && size > rows->bytes_max - rows->size) || (room && !room_takes(room, size)))
        return REFUSED;
    if (body > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a record is larger than 2 GiB");
        return FAILED;
    }
    int64_t delta = timestamp_delta(rows, row);
    if (reserve(&rows->output, (size_t)size) || remember_timestamp(rows, row->timestamp))
        return FAILED;
    uint8_t *at = put_varint(rows->output.data + rows->output.used, body);
    *at++ = 0; /* attributes: none are defined */
    at = put_varint(put_varint(at, delta), rows->count);
    at = put_row_field(put_row_field(at, row->key, row->key_bytes), row->value, row->value_bytes);
    if (row->headers.used)
        memcpy(at, row->headers.data, row->headers.used);
    else
        *at = 0;
    rows->output.used += (size_t)size;
    rows->size += size;
    if (room)
        room->used += size;
    if (!rows->count || row->timestamp > rows->max_timestamp)
        rows->max_timestamp = row->timestamp;
    return rows->count++;
}

static int row_field(PyObject *object, const char **field, Py_ssize_t *size)
{
    *field = NULL;
    *size = 0;
    if (object == Py_None)
        return 0;
    if (!PyBytes_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "keys and values are bytes or None");
        return -1;
    }
    *field = PyBytes_AsString(object);
    *size = PyBytes_Size(object);
    return 0;
}

/* May run Python code; `row->headers.data` is the caller's to free, also after a failure. */
static int row_headers(PyObject *headers, Row *row)
{
    if (headers == Py_None || (PyTuple_Check(headers) && !PyTuple_Size(headers)))
        return 0;
    return put_headers(&row->headers, headers);
}

static PyObject *rows_append(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Row row = {0};
    int64_t index = FAILED;
    if (count != 4) {
        PyErr_SetString(PyExc_TypeError, "append takes a timestamp, a key, a value and headers");
        return NULL;
    }
    if (!number(args[0], &row.timestamp, "a timestamp does not fit in 64 bits") &&
        !row_field(args[1], &row.key, &row.key_bytes) && !row_field(args[2], &row.value, &row.value_bytes) &&
        !row_headers(args[3], &row))
        index = rows_add((Rows *)self, &row, NULL);
    PyMem_Free(row.headers.data);
    return index == FAILED ? NULL : PyLong_FromLongLong(index);
}

static PyObject *rows_close(PyObject *self, PyObject *Py_UNUSED(none))
{
    ((Rows *)self)->closed = 1;
    return NOTHING;
}

static PyObject *rows_payload(PyObject *self, PyObject *Py_UNUSED(none))
{
    const Output *output = &((Rows *)self)->output;
    return PyBytes_FromStringAndSize((const char *)output->data, (Py_ssize_t)output->used);
}

static PyObject *rows_release(PyObject *self, PyObject *Py_UNUSED(none))
{
    Rows *rows = (Rows *)self;
    rows->closed = 1;
    PyMem_Free(rows->output.data);
    rows->output = (Output){NULL, 0, 0};
    return NOTHING;
}

static PyObject *rows_timestamp(PyObject *self, PyObject *index)
{
    Rows *rows = (Rows *)self;
    int64_t wanted;
    if (number(index, &wanted, "an index does not fit in 64 bits"))
        return NULL;
    if (wanted < 0 || wanted >= rows->count) {
        PyErr_SetString(PyExc_IndexError, "there is no such record");
        return NULL;
    }
    return PyLong_FromLongLong(rows->timestamps[wanted]);
}

static Py_ssize_t rows_length(PyObject *self)
{
    return (Py_ssize_t)((Rows *)self)->count;
}

static PyObject *rows_size(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(((Rows *)self)->size);
}

static PyObject *rows_max_timestamp(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(((Rows *)self)->count ? ((Rows *)self)->max_timestamp : -1);
}

static PyMethodDef rows_methods[] = {
    {"append", (PyCFunction)(void (*)(void))rows_append, METH_FASTCALL, NULL},
    {"close", rows_close, METH_NOARGS, NULL},
    {"payload", rows_payload, METH_NOARGS, NULL},
    {"release", rows_release, METH_NOARGS, NULL},
    {"timestamp", rows_timestamp, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef rows_fields[] = {
    {"size", rows_size, NULL, NULL, NULL},
    {"max_timestamp", rows_max_timestamp, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot rows_slots[] = {
    {Py_tp_init, rows_init},
    {Py_tp_dealloc, rows_dealloc},
    {Py_tp_methods, rows_methods},
    {Py_tp_getset, rows_fields},
    {Py_sq_length, rows_length},
    {0, NULL},
};
static PyType_Spec rows_spec = {"ottla.wire._kernel.Rows", sizeof(Rows), 0, Py_TPFLAGS_DEFAULT, rows_slots};

/* ---- Two references and a number: what gates, receipts and lanes have in common ---- */

typedef struct {
    PyObject_HEAD
    PyObject *first, *second;
} Pair;

static int pair_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Pair *)self)->first);
    Py_VISIT(((Pair *)self)->second);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int pair_clear(PyObject *self)
{
    Py_CLEAR(((Pair *)self)->first);
    Py_CLEAR(((Pair *)self)->second);
    return 0;
}

static void pair_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    pair_clear(self);
    free_object(self);
}

#define COLLECTED (Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC)

/* ---- Gate: the batch that a partition is filling ---- */

typedef struct {
    Pair pair; /* the batch, whatever that is to Python; its Rows */
} Gate;

static PyObject *gate_open(PyObject *self, PyObject *args)
{
    PyObject *batch, *rows, *old_batch, *old_rows;
    Pair *pair = (Pair *)self;
    if (!PyArg_ParseTuple(args, "OO", &batch, &rows))
        return NULL;
    if (!is_kernel_type(rows, ROWS)) {
        PyErr_SetString(PyExc_TypeError, "a gate opens to Rows");
        return NULL;
    }
    old_batch = pair->first;
    old_rows = pair->second;
    Py_INCREF(batch);
    Py_INCREF(rows);
    pair->first = batch;
    pair->second = rows;
    Py_XDECREF(old_batch);
    Py_XDECREF(old_rows);
    return NOTHING;
}

static PyObject *gate_shut(PyObject *self, PyObject *Py_UNUSED(none))
{
    if (((Pair *)self)->second)
        ((Rows *)((Pair *)self)->second)->closed = 1;
    pair_clear(self);
    return NOTHING;
}

static PyObject *gate_filling(PyObject *self, void *Py_UNUSED(closure))
{
    PyObject *batch = ((Pair *)self)->first ? ((Pair *)self)->first : Py_None;
    Py_INCREF(batch);
    return batch;
}

static PyMethodDef gate_methods[] = {
    {"open", gate_open, METH_VARARGS, NULL},
    {"shut", gate_shut, METH_NOARGS, NULL},
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef gate_fields[] = {{"filling", gate_filling, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot gate_slots[] = {
    {Py_tp_dealloc, pair_dealloc},
    {Py_tp_traverse, pair_traverse},
    {Py_tp_clear, pair_clear},
    {Py_tp_methods, gate_methods},
    {Py_tp_getset, gate_fields},
    {0, NULL},
};
static PyType_Spec gate_spec = {"ottla.wire._kernel.Gate", sizeof(Gate), 0, COLLECTED | Py_TPFLAGS_BASETYPE, gate_slots};

/* ---- Receipt: which record of which batch ---- */

typedef struct {
    Pair pair; /* the batch; nothing */
    int64_t index;
} Receipt;

static int receipt_init(PyObject *self, PyObject *args, PyObject *names)
{
    static char *known[] = {"batch", "index", NULL};
    PyObject *batch;
    long long index;
    if (!PyArg_ParseTupleAndKeywords(args, names, "OL", known, &batch, &index))
        return -1;
    pair_clear(self);
    Py_INCREF(batch);
    ((Pair *)self)->first = batch;
    ((Receipt *)self)->index = index;
    return 0;
}

static PyObject *receipt_batch(PyObject *self, void *Py_UNUSED(closure))
{
    return gate_filling(self, NULL);
}

static PyObject *receipt_index(PyObject *self, void *Py_UNUSED(closure))
{
    return PyLong_FromLongLong(((Receipt *)self)->index);
}

static PyMethodDef receipt_methods[] = {
    {"__class_getitem__", Py_GenericAlias, METH_O | METH_CLASS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef receipt_fields[] = {
    {"batch", receipt_batch, NULL, NULL, NULL},
    {"index", receipt_index, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot receipt_slots[] = {
    {Py_tp_init, receipt_init},
    {Py_tp_dealloc, pair_dealloc},
    {Py_tp_traverse, pair_traverse},
    {Py_tp_clear, pair_clear},
    {Py_tp_methods, receipt_methods},
    {Py_tp_getset, receipt_fields},
    {0, NULL},
};
static PyType_Spec receipt_spec = {"ottla.wire._kernel.Receipt", sizeof(Receipt), 0, COLLECTED | Py_TPFLAGS_BASETYPE,
                                   receipt_slots};

/* ---- Lane: a topic's gates, and which of them a record goes through ---- */

typedef struct {
    Pair pair; /* the gates, a tuple; the type of what `send` returns */
    PyObject *room, *clock;
    allocfunc make_receipt;
    int64_t until_ms, sticky, sticky_bytes;
    int hashes;
} Lane;

static int lane_init(PyObject *self, PyObject *args, PyObject *names)
{
    static char *known[] = {"room", "gates", "receipt", "until_ms", "hashes", "clock", NULL};
    PyObject *room, *gates, *receipt, *clock;
    long long until_ms;
    int hashes;
    Lane *lane = (Lane *)self;
    if (!PyArg_ParseTupleAndKeywords(args, names, "OOOLpO", known, &room, &gates, &receipt, &until_ms, &hashes,
                                     &clock))
        return -1;
    if (lane->room || !is_kernel_type(room, ROOM) || !is_kernel_subtype(receipt, RECEIPT)) {
        PyErr_SetString(PyExc_TypeError, "a lane takes a Room, gates and a kind of Receipt, once");
        return -1;
    }
    gates = PySequence_Tuple(gates);
    if (!gates)
        return -1;
    for (Py_ssize_t i = 0; i < PyTuple_Size(gates); i++)
        if (!is_kernel_type(PyTuple_GetItem(gates, i), GATE)) {
            PyErr_SetString(PyExc_TypeError, "a lane leads to gates");
            Py_DECREF(gates);
            return -1;
        }
    Py_INCREF(room);
    Py_INCREF(receipt);
    Py_INCREF(clock);
    lane->room = room;
    lane->clock = clock;
    lane->pair.first = gates;
    lane->pair.second = receipt;
    lane->make_receipt = (allocfunc)PyType_GetSlot((PyTypeObject *)receipt, Py_tp_alloc);
    lane->until_ms = until_ms;
    lane->sticky = -1;
    lane->hashes = hashes;
    return 0;
}

static int lane_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(((Lane *)self)->room);
    Py_VISIT(((Lane *)self)->clock);
    return pair_traverse(self, visit, arg);
}

static int lane_clear(PyObject *self)
{
    Py_CLEAR(((Lane *)self)->room);
    Py_CLEAR(((Lane *)self)->clock);
    return pair_clear(self);
}

static void lane_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    lane_clear(self);
    free_object(self);
}

/* 0, or -1 with an exception. */
static int now_ms(const Lane *lane, int64_t *ms)
{
    PyObject *now = PyObject_CallNoArgs(lane->clock);
    double seconds = now ? PyFloat_AsDouble(now) : -1;
    Py_XDECREF(now);
    if (seconds == -1 && PyErr_Occurred())
        return -1;
    *ms = (int64_t)(seconds * 1000);
    return 0;
}

/* The gate's number; -1: Python must choose. */
static int64_t lane_choose(const Lane *lane, const Row *row, int64_t partition)
{
    int64_t gates = PyTuple_Size(lane->pair.first);
    if (partition >= 0 || !lane->hashes)
        return partition < gates ? partition : -1;
    if (row->key)
        return gates ? (murmur2((const uint8_t *)row->key, row->key_bytes) & INT32_MAX) % gates : -1;
    return lane->sticky_bytes > 0 && lane->sticky < gates ? lane->sticky : -1;
}

/* Runs no Python code. The record's index and the batch it is in. */
static int64_t lane_add(Lane *lane, const Row *row, int64_t partition, PyObject **batch)
{
    int64_t chosen = lane_choose(lane, row, partition);
    if (chosen < 0)
        return REFUSED;
    Pair *gate = (Pair *)PyTuple_GetItem(lane->pair.first, (Py_ssize_t)chosen);
    if (!gate->second)
        return REFUSED;
    Rows *rows = (Rows *)gate->second;
    int64_t before = rows->size, index = rows_add(rows, row, (Room *)lane->room);
    if (index >= 0) {
        *batch = gate->first;
        if (partition < 0 && !row->key)
            lane->sticky_bytes -= rows->size - before;
    }
    return index;
}

/* send(value, key, partition, headers, timestamp): a receipt, or None where Python has something to do first. */
static PyObject *lane_send(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    Lane *lane = (Lane *)self;
    Row row = {0};
    int64_t partition = -1, index = REFUSED;
    PyObject *receipt, *batch = NULL;
    if (count != 5 || !lane->room) {
        PyErr_SetString(PyExc_TypeError, "send takes a value, a key, a partition, headers and a timestamp");
        return NULL;
    }
    if (now_ms(lane, &row.timestamp))
        return NULL;
    if ((args[0] != Py_None && !PyBytes_CheckExact(args[0])) || (args[1] != Py_None && !PyBytes_CheckExact(args[1])) ||
        row.timestamp > lane->until_ms)
        return NOTHING;
    if (row_field(args[0], &row.value, &row.value_bytes) || row_field(args[1], &row.key, &row.key_bytes) ||
        (args[4] != Py_None && number(args[4], &row.timestamp, "a timestamp does not fit in 64 bits")))
        return NULL;
    if (args[2] != Py_None) {
        if (number(args[2], &partition, "a partition does not fit in 64 bits"))
            return NULL;
        if (partition < 0)
            return NOTHING;
    }
    if (row_headers(args[3], &row)) {
        PyMem_Free(row.headers.data);
        return NULL;
    }
    receipt = lane->make_receipt((PyTypeObject *)lane->pair.second, 0);
    if (receipt)
        index = lane_add(lane, &row, partition, &batch);
    PyMem_Free(row.headers.data);
    if (receipt && index >= 0) {
        Py_INCREF(batch);
        ((Pair *)receipt)->first = batch;
        ((Receipt *)receipt)->index = index;
        return receipt;
    }
    int failed = !receipt || index == FAILED;
    Py_XDECREF(receipt);
    return failed ? NULL : NOTHING;
}

static PyObject *lane_stick(PyObject *self, PyObject *args)
{
    long long partition, bytes;
    if (!PyArg_ParseTuple(args, "LL", &partition, &bytes))
        return NULL;
    ((Lane *)self)->sticky = partition;
    ((Lane *)self)->sticky_bytes = partition < 0 ? 0 : bytes;
    return NOTHING;
}

static PyObject *lane_sticky(PyObject *self, void *Py_UNUSED(closure))
{
    Lane *lane = (Lane *)self;
    return Py_BuildValue("LL", (long long)lane->sticky, (long long)lane->sticky_bytes);
}

static PyMethodDef lane_methods[] = {
    {"send", (PyCFunction)(void (*)(void))lane_send, METH_FASTCALL, NULL},
    {"stick", lane_stick, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef lane_fields[] = {{"sticky", lane_sticky, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot lane_slots[] = {
    {Py_tp_init, lane_init},
    {Py_tp_dealloc, lane_dealloc},
    {Py_tp_traverse, lane_traverse},
    {Py_tp_clear, lane_clear},
    {Py_tp_methods, lane_methods},
    {Py_tp_getset, lane_fields},
    {0, NULL},
};
static PyType_Spec lane_spec = {"ottla.wire._kernel.Lane", sizeof(Lane), 0, COLLECTED, lane_slots};

/* ---- And the way back: records as tuples ---- */

#define TUPLE_FIELDS 9

typedef struct {
    long long first_offset, base_offset, base_timestamp;
    int64_t same_timestamp;
    int has_same_timestamp;
    PyObject *topic, *partition, *kind, *epoch;
    PyTypeObject *type;
    allocfunc make;
} Reading;

static PyObject *bytes_of(const Field *field)
{
    if (!field->start)
        return NOTHING;
    return PyBytes_FromStringAndSize((const char *)field->start, field->end - field->start);
}

/* Their bounds were checked. Names that are no UTF-8 are mended, as Java does. */
static PyObject *headers_of(const Record *record)
{
    const uint8_t *at = record->headers;
    int64_t count = 0;
    read_varint(&at, record->end, 32, &count);
    PyObject *found = PyTuple_New((Py_ssize_t)count);
    for (Py_ssize_t i = 0; found && i < (Py_ssize_t)count; i++) {
        Field name = {NULL, NULL}, value = {NULL, NULL};
        read_field(&at, record->end, &name, TRUNCATED);
        read_field(&at, record->end, &value, TRUNCATED);
        PyObject *key = PyUnicode_DecodeUTF8((const char *)name.start, name.end - name.start, "replace");
        PyObject *pair = key ? Py_BuildValue("NN", key, bytes_of(&value)) : NULL;
        if (!pair || PyTuple_SetItem(found, i, pair))
            Py_CLEAR(found);
    }
    return found;
}

static PyObject *same(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

static int64_t offset_of(const Reading *reading, const Record *record)
{
    return (int64_t)((uint64_t)reading->base_offset + (uint64_t)record->offset_delta);
}

static PyObject *tuple_of(const Reading *reading, const Record *record)
{
    int64_t timestamp = reading->has_same_timestamp
                            ? reading->same_timestamp
                            : (int64_t)((uint64_t)reading->base_timestamp + (uint64_t)record->timestamp_delta);
    PyObject *made = reading->make(reading->type, TUPLE_FIELDS);
    if (!made)
        return NULL;
    PyObject *fields[TUPLE_FIELDS] = {
        same(reading->topic),
        same(reading->partition),
        PyLong_FromLongLong(offset_of(reading, record)),
        PyLong_FromLongLong(timestamp),
        bytes_of(&record->key),
        bytes_of(&record->value),
        record->end - record->headers == 1 ? PyTuple_New(0) : headers_of(record),
        same(reading->kind),
        same(reading->epoch),
    };
    int failed = 0;
    for (Py_ssize_t i = 0; i < TUPLE_FIELDS; i++)
        failed |= !fields[i] || PyTuple_SetItem(made, i, fields[i]);
    if (failed)
        Py_CLEAR(made);
    return made;
}

static PyObject *tuples_of(PyObject *module, const Payload *payload, const Reading *reading)
{
    const uint8_t *at = payload->start;
    Record record;
    Fault fault = count_is_possible(payload);
    PyObject *found = PyList_New(0);
    for (int64_t index = 0; found && !fault.reason && index < payload->count; index++, at = record.end) {
        fault = (Fault){index, read_record(at, payload->end, &record)};
        if (fault.reason)
            break;
        if (offset_of(reading, &record) < reading->first_offset)
            continue;
        PyObject *made = tuple_of(reading, &record);
        if (!made || PyList_Append(found, made))
            Py_CLEAR(found);
        Py_XDECREF(made);
    }
    if (found && !fault.reason)
        fault = all_consumed(payload, at);
    if (found && fault.reason) {
        Py_CLEAR(found);
        return raise_bad_record(module, fault);
    }
    return found;
}

PyObject *py_tuples(PyObject *module, PyObject *args)
{
    Py_buffer data;
    long long count;
    PyObject *same_timestamp, *type, *found = NULL;
    Reading reading = {0};
    if (!PyArg_ParseTuple(args, "Oy*LLLLOOOOO", &type, &data, &count, &reading.first_offset, &reading.base_offset,
                          &reading.base_timestamp, &same_timestamp, &reading.topic, &reading.partition, &reading.kind,
                          &reading.epoch))
        return NULL;
    reading.type = (PyTypeObject *)type;
    reading.has_same_timestamp = same_timestamp != Py_None;
    if (!PyType_Check(type) || !PyType_IsSubtype(reading.type, &PyTuple_Type))
        PyErr_SetString(PyExc_TypeError, "records are made as a kind of tuple");
    else if (!reading.has_same_timestamp ||
             !number(same_timestamp, &reading.same_timestamp, "a timestamp does not fit in 64 bits")) {
        Payload payload = payload_of(&data, count);
        reading.make = (allocfunc)PyType_GetSlot(reading.type, Py_tp_alloc);
        found = tuples_of(module, &payload, &reading);
    }
    PyBuffer_Release(&data);
    return found;
}

/* ---- The types of this file ---- */

static PyType_Spec *const specs[ROW_TYPES] = {&room_spec, &rows_spec, &gate_spec, &receipt_spec, &lane_spec};
static const char *const type_names[ROW_TYPES] = {"Room", "Rows", "Gate", "Receipt", "Lane"};

int add_row_types(PyObject *module, PyObject **types)
{
    for (int i = 0; i < ROW_TYPES; i++) {
        types[i] = PyType_FromModuleAndSpec(module, specs[i], NULL);
        if (!types[i] || PyModule_AddObjectRef(module, type_names[i], types[i]))
            return -1;
    }
    return 0;
}
