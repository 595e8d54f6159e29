/* The table from key bytes to row numbers, and heaps of variable-size entries. table_py.py is the same in Python.
 *
 * The caller brings all arrays, in memory or in mapped files. Nothing in them is trusted: a row or an offset
 * that points outside of its array is a ValueError, because a mapped file may hold anything. */
#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030B0000
#endif
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define BLOCK 32       /* keys whose memory is asked for together */
#define LENGTH_BYTES 4 /* before each entry of a heap */
#define ROWS_MAX (UINT32_MAX - 1LL)

/* The table's counters; the last two are the heap's own, and a heap of values has only those. */
enum { SEED, ROWS_USED, LIVE, FREE_ROW, TABLE_COUNTERS };
enum { HEAP_USED, HEAP_GARBAGE, HEAP_COUNTERS };

#define INCONSISTENT "the arrays of the table do not fit together"

static PyObject *inconsistent(void)
{
    PyErr_SetString(PyExc_ValueError, INCONSISTENT);
    return NULL;
}

#if defined(__GNUC__)
#define PREFETCH(address) __builtin_prefetch(address)
#else
#define PREFETCH(address) ((void)(address))
#endif

/* ---- The hash: 64-bit words, folded products, a secret seed. 32 bits of it address the slots ---- */

static inline uint64_t fold(uint64_t a, uint64_t b)
{
#if defined(__SIZEOF_INT128__)
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
#else
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (uint32_t)middle;
    return a * b ^ (a1 * b1 + (middle >> 32) + (other >> 32));
#endif
}

static inline uint64_t little_endian(uint64_t word)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return __builtin_bswap64(word);
#else
    return word;
#endif
}

static inline uint64_t load_word(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return little_endian(word);
}

/* The last bytes of a key, fewer than 8, as a word with zeros above. */
static inline uint64_t load_tail(const uint8_t *at, int64_t rest, int64_t length)
{
    if (length >= 8) /* the word that ends with the key, without the bytes that were read before */
        return load_word(at + rest - 8) >> (64 - 8 * rest);
    uint64_t word = 0;
    for (int64_t i = 0; i < rest; i++)
        word |= (uint64_t)at[i] << (8 * i);
    return word;
}

static inline uint32_t hash_of(const uint8_t *key, int64_t length, uint64_t seed)
{
    uint64_t state = seed ^ (uint64_t)length;
    int64_t rest = length;
    for (; rest >= 8; key += 8, rest -= 8)
        state = fold(state ^ load_word(key), 0x9E3779B97F4A7C15u);
    if (rest)
        state = fold(state ^ load_tail(key, rest, length), 0x9E3779B97F4A7C15u);
    state = fold(state ^ 0xD6E8FEB86659FD93u, 0xC2B2AE3D27D4EB4Fu);
    return (uint32_t)(state ^ state >> 32);
}

/* ---- A heap: entries behind 64-bit offsets, each with its length before it ---- */

typedef struct {
    int64_t *counters, *offsets; /* an offset is stored plus 1: 0 is a row without entry, negative a free row */
    uint8_t *bytes;
    int64_t rows, size;
} Heap;

static Heap heap_of(const Py_buffer *counters, int64_t skip, const Py_buffer *offsets, const Py_buffer *bytes)
{
    return (Heap){(int64_t *)counters->buf + skip, offsets->buf, bytes->buf, offsets->len / 8, bytes->len};
}

static int heap_is_sound(const Heap *heap)
{
    int64_t used = heap->counters[HEAP_USED];
    return used >= 0 && used <= heap->size;
}

typedef struct {
    const uint8_t *start;
    int64_t length;
} Bytes;

/* -1: outside of the heap. A row without entry has no bytes. */
static inline int entry_at(const Heap *heap, int64_t row, Bytes *entry)
{
    uint32_t length;
    if (row < 0 || row >= heap->rows)
        return -1;
    *entry = (Bytes){heap->bytes, 0};
    if (heap->offsets[row] <= 0)
        return 0;
    int64_t offset = heap->offsets[row] - 1;
    if (offset > heap->size - LENGTH_BYTES)
        return -1;
    memcpy(&length, heap->bytes + offset, LENGTH_BYTES);
    *entry = (Bytes){heap->bytes + offset + LENGTH_BYTES, length};
    return entry->length <= heap->size - LENGTH_BYTES - offset ? 0 : -1;
}

static inline int has_room(const Heap *heap, int64_t length)
{
    return length <= heap->size - LENGTH_BYTES - heap->counters[HEAP_USED];
}

static inline void write_entry(uint8_t *at, const uint8_t *start, int64_t length)
{
    uint32_t narrow = (uint32_t)length;
    memcpy(at, &narrow, LENGTH_BYTES);
    memcpy(at + LENGTH_BYTES, start, (size_t)length);
}

static inline void append_entry(Heap *heap, int64_t row, const Bytes *entry)
{
    int64_t used = heap->counters[HEAP_USED];
    write_entry(heap->bytes + used, entry->start, entry->length);
    heap->offsets[row] = used + 1;
    heap->counters[HEAP_USED] = used + LENGTH_BYTES + entry->length;
}

/* ---- Cells of a binary array of Arrow: offsets of 32 bits and the bytes they cut ---- */

typedef struct {
    const uint8_t *offsets, *bytes;
    int64_t offsets_bytes, size;
} Cells;

static Cells cells_of(const Py_buffer *offsets, const Py_buffer *bytes)
{
    return (Cells){offsets->buf, bytes->buf, offsets->len, bytes->len};
}

static inline int cell_at(const Cells *cells, int64_t index, Bytes *cell)
{
    int32_t range[2];
    memcpy(range, cells->offsets + 4 * index, 8);
    *cell = (Bytes){cells->bytes + range[0], (int64_t)range[1] - range[0]};
    return range[0] < 0 || range[1] < range[0] || range[1] > cells->size ? -1 : 0;
}

static int holds(const Cells *cells, int64_t start, int64_t count)
{
    return start >= 0 && count >= 0 && start + count < INT64_MAX / 8 && 4 * (start + count + 1) <= cells->offsets_bytes;
}

/* ---- The table: open addressing, linear probing, no tombstones ---- */

typedef struct {
    uint32_t hash;
    uint32_t row; /* plus 1: 0 is an empty slot */
} Slot;

typedef struct {
    int64_t *counters;
    Slot *slots;
    uint64_t mask;
    Heap keys;
} Table;

static int table_of(Table *table, const Py_buffer *counters, const Py_buffer *slots, const Py_buffer *offsets,
                    const Py_buffer *bytes)
{
    uint64_t size = (uint64_t)slots->len / sizeof(Slot);
    if (counters->len < 8 * (TABLE_COUNTERS + HEAP_COUNTERS) || size < 2 || size & (size - 1) ||
        (uint64_t)slots->len % sizeof(Slot))
        return -1;
    *table = (Table){counters->buf, slots->buf, size - 1, heap_of(counters, TABLE_COUNTERS, offsets, bytes)};
    const int64_t *counted = table->counters;
    if (!heap_is_sound(&table->keys) || counted[ROWS_USED] < 0 || counted[ROWS_USED] > table->keys.rows ||
        counted[LIVE] < 0 || (uint64_t)counted[LIVE] >= size)
        return -1;
    return 0;
}

static inline int is_crowded(const Table *table)
{
    return ((uint64_t)table->counters[LIVE] + 1) * 8 > (table->mask + 1) * 5;
}

static inline int same(const Bytes *a, const Bytes *b)
{
    if (a->length != b->length)
        return 0;
    const uint8_t *left = a->start, *right = b->start;
    int64_t length = a->length, rest = length;
    for (; rest >= 8; left += 8, right += 8, rest -= 8)
        if (load_word(left) != load_word(right))
            return 0;
    return !rest || load_tail(left, rest, length) == load_tail(right, rest, length);
}

enum { MISSING = -1, BROKEN = -2 };

/* The key's row, and where its slot is or would be. */
static inline int64_t probe(const Table *table, uint32_t hash, const Bytes *key, uint64_t *at)
{
    Bytes other;
    uint64_t index = hash & table->mask;
    for (uint64_t tries = 0; tries <= table->mask; tries++, index = (index + 1) & table->mask) {
        Slot slot = table->slots[index];
        *at = index;
        if (!slot.row)
            return MISSING;
        if (slot.hash != hash)
            continue;
        if (entry_at(&table->keys, (int64_t)slot.row - 1, &other))
            return BROKEN;
        if (same(key, &other))
            return (int64_t)slot.row - 1;
    }
    return BROKEN;
}

/* Ask for the memory that the probes of a block will read: slots, then offsets, then keys. */
static int prepare_block(const Table *table, const Cells *cells, int64_t start, int64_t count, Bytes *keys,
                         uint32_t *hashes)
{
    int64_t rows[BLOCK];
    for (int64_t i = 0; i < count; i++) {
        if (cell_at(cells, start + i, &keys[i]))
            return -1;
        hashes[i] = hash_of(keys[i].start, keys[i].length, (uint64_t)table->counters[SEED]);
        PREFETCH(&table->slots[hashes[i] & table->mask]);
    }
    for (int64_t i = 0; i < count; i++) {
        Slot slot = table->slots[hashes[i] & table->mask];
        rows[i] = slot.row && slot.hash == hashes[i] && slot.row <= (uint64_t)table->keys.rows ? (int64_t)slot.row - 1 : -1;
        if (rows[i] >= 0)
            PREFETCH(&table->keys.offsets[rows[i]]);
    }
    for (int64_t i = 0; i < count; i++)
        if (rows[i] >= 0 && table->keys.offsets[rows[i]] > 0 && table->keys.offsets[rows[i]] < table->keys.size)
            PREFETCH(table->keys.bytes + table->keys.offsets[rows[i]]);
    return 0;
}

static int64_t find_keys(const Table *table, const Cells *cells, int64_t start, int64_t count, int64_t *rows)
{
    Bytes keys[BLOCK];
    uint32_t hashes[BLOCK];
    uint64_t at;
    for (int64_t base = 0; base < count; base += BLOCK) {
        int64_t some = count - base < BLOCK ? count - base : BLOCK;
        if (prepare_block(table, cells, start + base, some, keys, hashes))
            return BROKEN;
        for (int64_t i = 0; i < some; i++)
            if ((rows[base + i] = probe(table, hashes[i], &keys[i], &at)) == BROKEN)
                return BROKEN;
    }
    return count;
}

/* The new row, MISSING where an array must grow first, or BROKEN. */
static inline int64_t insert(Table *table, uint32_t hash, const Bytes *key, uint64_t at, int64_t limit)
{
    int64_t *counted = table->counters, row = counted[FREE_ROW] > 0 ? counted[FREE_ROW] - 1 : -1;
    if (counted[LIVE] >= limit || is_crowded(table) || !has_room(&table->keys, key->length))
        return MISSING;
    if (row >= 0) {
        if (row >= counted[ROWS_USED] || table->keys.offsets[row] >= 0)
            return BROKEN;
        counted[FREE_ROW] = -1 - table->keys.offsets[row];
    } else {
        row = counted[ROWS_USED];
        if (row >= table->keys.rows || row >= ROWS_MAX)
            return MISSING;
        counted[ROWS_USED]++;
    }
    append_entry(&table->keys, row, key);
    table->slots[at] = (Slot){hash, (uint32_t)row + 1};
    counted[LIVE]++;
    return row;
}

/* Rows of all keys, new ones included; ends before the first key for which an array must grow. */
static int64_t assign_keys(Table *table, const Cells *cells, int64_t start, int64_t done, int64_t count, int64_t limit,
                           int64_t *rows, int64_t *created, int64_t *creations)
{
    Bytes keys[BLOCK];
    uint32_t hashes[BLOCK];
    uint64_t at;
    for (int64_t base = done; base < count; base += BLOCK) {
        int64_t some = count - base < BLOCK ? count - base : BLOCK;
        if (prepare_block(table, cells, start + base, some, keys, hashes))
            return BROKEN;
        for (int64_t i = 0; i < some; i++) {
            int64_t row = probe(table, hashes[i], &keys[i], &at);
            if (row == MISSING) {
                if ((row = insert(table, hashes[i], &keys[i], at, limit)) == MISSING)
                    return base + i;
                created[(*creations)++] = row;
            }
            if (row == BROKEN)
                return BROKEN;
            rows[base + i] = row;
        }
    }
    return count;
}

/* Close the gap: a slot moves back unless that would put it before the place its hash names. */
static void empty_slot(Table *table, uint64_t hole)
{
    uint64_t mask = table->mask, index = hole;
    for (uint64_t tries = 0; tries <= mask; tries++) {
        index = (index + 1) & mask;
        Slot slot = table->slots[index];
        if (!slot.row)
            break;
        if (((index - slot.hash) & mask) >= ((index - hole) & mask)) {
            table->slots[hole] = slot;
            hole = index;
        }
    }
    table->slots[hole] = (Slot){0, 0};
}

/* Rows that are free already are passed over. */
static int64_t delete_rows(Table *table, const int64_t *rows, int64_t count)
{
    int64_t *counted = table->counters, deleted = 0;
    Bytes key;
    uint64_t at;
    for (int64_t i = 0; i < count; i++) {
        int64_t row = rows[i];
        if (row < 0 || row >= counted[ROWS_USED] || entry_at(&table->keys, row, &key))
            return BROKEN;
        if (table->keys.offsets[row] <= 0)
            continue;
        if (probe(table, hash_of(key.start, key.length, (uint64_t)counted[SEED]), &key, &at) != row)
            return BROKEN;
        empty_slot(table, at);
        table->keys.offsets[row] = -1 - counted[FREE_ROW];
        table->keys.counters[HEAP_GARBAGE] += LENGTH_BYTES + key.length;
        counted[FREE_ROW] = row + 1;
        counted[LIVE]--;
        deleted++;
    }
    return deleted;
}

/* ---- For Python ---- */

#define BUFFERS_MAX 8

/* All buffers of a call; those of which only bytes are read come last. */
typedef struct {
    Py_buffer each[BUFFERS_MAX];
    int count;
} Buffers;

static void release(Buffers *buffers)
{
    while (buffers->count)
        PyBuffer_Release(&buffers->each[--buffers->count]);
}

static int acquire(Buffers *buffers, PyObject **objects, int writable, int readable)
{
    buffers->count = 0;
    for (int i = 0; i < writable + readable; i++) {
        if (PyObject_GetBuffer(objects[i], &buffers->each[i], i < writable ? PyBUF_WRITABLE : PyBUF_SIMPLE)) {
            release(buffers);
            return -1;
        }
        buffers->count++;
    }
    return 0;
}

static PyObject *number_or_broken(int64_t result)
{
    return result == BROKEN ? inconsistent() : PyLong_FromLongLong(result);
}

static PyObject *py_find(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[7];
    long long start, count;
    Buffers buffers;
    Table table;
    int64_t result = BROKEN;
    if (!PyArg_ParseTuple(args, "OOOOOOOLL", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4],
                          &objects[5], &objects[6], &start, &count) ||
        acquire(&buffers, objects, 5, 2))
        return NULL;
    Py_buffer *each = buffers.each;
    Cells cells = cells_of(&each[5], &each[6]);
    if (!table_of(&table, &each[0], &each[1], &each[2], &each[3]) && holds(&cells, start, count) &&
        8 * count <= each[4].len) {
        Py_BEGIN_ALLOW_THREADS
        result = find_keys(&table, &cells, start, count, each[4].buf);
        Py_END_ALLOW_THREADS
    }
    release(&buffers);
    return number_or_broken(result);
}

static PyObject *py_assign(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[8];
    long long start, done, count, limit;
    Buffers buffers;
    Table table;
    int64_t result = BROKEN, creations = 0;
    if (!PyArg_ParseTuple(args, "OOOOOOOOLLLL", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4],
                          &objects[5], &objects[6], &objects[7], &start, &done, &count, &limit) ||
        acquire(&buffers, objects, 6, 2))
        return NULL;
    Py_buffer *each = buffers.each;
    Cells cells = cells_of(&each[6], &each[7]);
    if (!table_of(&table, &each[0], &each[1], &each[2], &each[3]) && holds(&cells, start, count) && done >= 0 &&
        8 * count <= each[4].len && 8 * (count - done) <= each[5].len) {
        Py_BEGIN_ALLOW_THREADS
        result = assign_keys(&table, &cells, start, done, count, limit, each[4].buf, each[5].buf, &creations);
        Py_END_ALLOW_THREADS
    }
    release(&buffers);
    if (result == BROKEN)
        return inconsistent();
    return Py_BuildValue("LL", (long long)result, (long long)creations);
}

static PyObject *py_delete(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[5];
    Buffers buffers;
    Table table;
    int64_t result = BROKEN;
    if (!PyArg_ParseTuple(args, "OOOOO", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4]) ||
        acquire(&buffers, objects, 4, 1))
        return NULL;
    Py_buffer *each = buffers.each;
    if (!table_of(&table, &each[0], &each[1], &each[2], &each[3])) {
        Py_BEGIN_ALLOW_THREADS
        result = delete_rows(&table, each[4].buf, each[4].len / 8);
        Py_END_ALLOW_THREADS
    }
    release(&buffers);
    return number_or_broken(result);
}

static PyObject *py_rehash(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[2];
    Buffers buffers;
    int64_t moved = 0;
    if (!PyArg_ParseTuple(args, "OO", &objects[0], &objects[1]) || acquire(&buffers, objects, 1, 1))
        return NULL;
    Slot *target = buffers.each[0].buf;
    const Slot *source = buffers.each[1].buf;
    int64_t size = buffers.each[0].len / (int64_t)sizeof(Slot), count = buffers.each[1].len / (int64_t)sizeof(Slot);
    if (size <= count || size & (size - 1)) {
        release(&buffers);
        return inconsistent();
    }
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < count; i++) {
        if (!source[i].row)
            continue;
        int64_t index = source[i].hash & (size - 1);
        while (target[index].row)
            index = (index + 1) & (size - 1);
        target[index] = source[i];
        moved++;
    }
    Py_END_ALLOW_THREADS
    release(&buffers);
    return PyLong_FromLongLong(moved);
}

/* How many bytes the entries of these rows have. */
static PyObject *py_measure(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[3];
    Buffers buffers;
    int64_t total = 0;
    Bytes entry;
    if (!PyArg_ParseTuple(args, "OOO", &objects[0], &objects[1], &objects[2]) || acquire(&buffers, objects, 0, 3))
        return NULL;
    Py_buffer *each = buffers.each;
    Heap heap = {NULL, each[0].buf, each[1].buf, each[0].len / 8, each[1].len};
    const int64_t *rows = each[2].buf;
    int64_t count = each[2].len / 8;
    Py_BEGIN_ALLOW_THREADS
    for (int64_t i = 0; i < count && total != BROKEN; i++)
        total = entry_at(&heap, rows[i], &entry) ? BROKEN : total + entry.length;
    Py_END_ALLOW_THREADS
    release(&buffers);
    return number_or_broken(total);
}

static int64_t gather_rows(const Heap *heap, const int64_t *rows, int64_t count, int32_t *offsets, uint8_t *bytes,
                           int64_t size)
{
    int64_t at = 0;
    Bytes entry;
    offsets[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        if (i + BLOCK < count && rows[i + BLOCK] >= 0 && rows[i + BLOCK] < heap->rows)
            PREFETCH(&heap->offsets[rows[i + BLOCK]]);
        if (i + BLOCK / 2 < count && rows[i + BLOCK / 2] >= 0 && rows[i + BLOCK / 2] < heap->rows &&
            heap->offsets[rows[i + BLOCK / 2]] > 0)
            PREFETCH(heap->bytes + heap->offsets[rows[i + BLOCK / 2]]);
        if (entry_at(heap, rows[i], &entry) || entry.length > size - at)
            return BROKEN;
        memcpy(bytes + at, entry.start, (size_t)entry.length);
        at += entry.length;
        offsets[i + 1] = (int32_t)at;
    }
    return at;
}

/* The entries of these rows as a binary array of Arrow. */
static PyObject *py_gather(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[5];
    Buffers buffers;
    int64_t result = BROKEN;
    if (!PyArg_ParseTuple(args, "OOOOO", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4]) ||
        acquire(&buffers, objects, 2, 3))
        return NULL;
    Py_buffer *each = buffers.each;
    Heap heap = {NULL, each[2].buf, each[3].buf, each[2].len / 8, each[3].len};
    if (each[4].len / 8 < each[0].len / 4 && each[1].len <= INT32_MAX) {
        Py_BEGIN_ALLOW_THREADS
        result = gather_rows(&heap, each[4].buf, each[4].len / 8, each[0].buf, each[1].buf, each[1].len);
        Py_END_ALLOW_THREADS
    }
    release(&buffers);
    return number_or_broken(result);
}

/* An entry that fits where the old one was is written there; any other is appended. */
static int64_t put_rows(Heap *heap, const int64_t *rows, const Cells *cells, int64_t start, int64_t done, int64_t count)
{
    Bytes value, old;
    for (int64_t i = done; i < count; i++) {
        if (cell_at(cells, start + i, &value) || entry_at(heap, rows[i], &old))
            return BROKEN;
        int has_old = heap->offsets[rows[i]] > 0;
        if (has_old && value.length <= old.length) {
            write_entry(heap->bytes + heap->offsets[rows[i]] - 1, value.start, value.length);
            heap->counters[HEAP_GARBAGE] += old.length - value.length;
            continue;
        }
        if (!has_room(heap, value.length))
            return i;
        if (has_old)
            heap->counters[HEAP_GARBAGE] += LENGTH_BYTES + old.length;
        append_entry(heap, rows[i], &value);
    }
    return count;
}

static PyObject *py_put(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[6];
    long long start, done, count;
    Buffers buffers;
    int64_t result = BROKEN;
    if (!PyArg_ParseTuple(args, "OOOOOOLLL", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4],
                          &objects[5], &start, &done, &count) ||
        acquire(&buffers, objects, 3, 3))
        return NULL;
    Py_buffer *each = buffers.each;
    Heap heap = heap_of(&each[0], 0, &each[1], &each[2]);
    Cells cells = cells_of(&each[4], &each[5]);
    if (each[0].len >= 8 * HEAP_COUNTERS && heap_is_sound(&heap) && holds(&cells, start, count) && done >= 0 &&
        8 * count <= each[3].len) {
        Py_BEGIN_ALLOW_THREADS
        result = put_rows(&heap, each[3].buf, &cells, start, done, count);
        Py_END_ALLOW_THREADS
    }
    release(&buffers);
    return number_or_broken(result);
}

static int64_t pack_rows(const Heap *old, uint8_t *target, int64_t size, const int64_t *rows, int64_t count)
{
    int64_t used = 0;
    Bytes entry;
    for (int64_t i = 0; i < count; i++) {
        if (entry_at(old, rows[i], &entry) || entry.length > size - LENGTH_BYTES - used)
            return BROKEN;
        write_entry(target + used, entry.start, entry.length);
        old->offsets[rows[i]] = used + 1;
        used += LENGTH_BYTES + entry.length;
    }
    return used;
}

/* The entries of these rows, one behind the other, from a copy of the heap into the heap. */
static PyObject *py_pack(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[4];
    Buffers buffers;
    int64_t used;
    if (!PyArg_ParseTuple(args, "OOOO", &objects[0], &objects[1], &objects[2], &objects[3]) ||
        acquire(&buffers, objects, 2, 2))
        return NULL;
    Py_buffer *each = buffers.each;
    Heap old = {NULL, each[0].buf, each[2].buf, each[0].len / 8, each[2].len};
    Py_BEGIN_ALLOW_THREADS
    used = pack_rows(&old, each[1].buf, each[1].len, each[3].buf, each[3].len / 8);
    Py_END_ALLOW_THREADS
    release(&buffers);
    return number_or_broken(used);
}

/* ---- Cells of two parts: one of a fixed size, at the front or at the end, and the rest ---- */

static int64_t split_cells(const Cells *cells, int64_t start, int64_t count, int64_t size, int at_end, uint8_t *fixed,
                           int32_t *offsets, uint8_t *bytes, int64_t bytes_size)
{
    int64_t at = 0;
    Bytes cell;
    offsets[0] = 0;
    for (int64_t i = 0; i < count; i++) {
        if (cell_at(cells, start + i, &cell) || cell.length < size || cell.length - size > bytes_size - at)
            return BROKEN;
        int64_t rest = cell.length - size;
        memcpy(fixed + i * size, at_end ? cell.start + rest : cell.start, (size_t)size);
        memcpy(bytes + at, at_end ? cell.start : cell.start + size, (size_t)rest);
        at += rest;
        offsets[i + 1] = (int32_t)at;
    }
    return at;
}

static PyObject *py_split(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *objects[5];
    long long start, count, size;
    int at_end;
    Buffers buffers;
    int64_t result = BROKEN;
    if (!PyArg_ParseTuple(args, "OOOOOLLLp", &objects[0], &objects[1], &objects[2], &objects[3], &objects[4], &start,
                          &count, &size, &at_end) ||
        acquire(&buffers, objects, 3, 2))
        return NULL;
    Py_buffer *each = buffers.each;
    Cells cells = cells_of(&each[3], &each[4]);
    if (holds(&cells, start, count) && size > 0 && count <= each[0].len / size && count < each[1].len / 4 &&
        each[2].len <= INT32_MAX) {
        Py_BEGIN_ALLOW_THREADS
        result = split_cells(&cells, start, count, size, at_end, each[0].buf, each[1].buf, each[2].buf, each[2].len);
        Py_END_ALLOW_THREADS
    }
    release(&buffers);
    return number_or_broken(result);
}

static PyMethodDef methods[] = {
    {"find", py_find, METH_VARARGS, "The rows of keys, -1 for those that are not in the table."},
    {"assign", py_assign, METH_VARARGS, "The rows of keys, new ones included, until an array must grow."},
    {"delete", py_delete, METH_VARARGS, "Free rows; how many were not free before."},
    {"rehash", py_rehash, METH_VARARGS, "Move all slots into a larger, empty array of slots."},
    {"measure", py_measure, METH_VARARGS, "How many bytes the entries of rows have."},
    {"gather", py_gather, METH_VARARGS, "The entries of rows, as the buffers of a binary array."},
    {"put", py_put, METH_VARARGS, "Set the entries of rows, until the heap must grow."},
    {"pack", py_pack, METH_VARARGS, "Entries from a copy of a heap into the heap, without gaps."},
    {"split", py_split, METH_VARARGS, "Cells into a part of a fixed size, at the front or the end, and the rest."},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot module_slots[] = {{0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "ottla.pipelines.state._table",
    .m_methods = methods,
    .m_slots = module_slots,
};

PyMODINIT_FUNC PyInit__table(void)
{
    return PyModuleDef_Init(&definition);
}
