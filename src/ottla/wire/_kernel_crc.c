/* CRC-32C: by the instruction where the processor has it, else eight table look-ups for eight bytes. */
#include "_kernel.h"

#if defined(__GNUC__) && defined(__x86_64__)
#define HARDWARE_CRC 1
#include <nmmintrin.h>
#endif

static uint32_t crc_table[8][256]; /* [k][b]: what byte b does to the CRC when k more bytes follow it */

uint32_t crc_portable(uint32_t crc, const uint8_t *at, size_t size)
{
    for (; size >= 8; at += 8, size -= 8) {
        uint32_t low = crc ^ ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24);
        crc = crc_table[7][low & 0xff] ^ crc_table[6][low >> 8 & 0xff] ^ crc_table[5][low >> 16 & 0xff] ^
              crc_table[4][low >> 24] ^ crc_table[3][at[4]] ^ crc_table[2][at[5]] ^ crc_table[1][at[6]] ^
              crc_table[0][at[7]];
    }
    while (size--)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *at++) & 0xff];
    return crc;
}

uint32_t (*crc_update)(uint32_t, const uint8_t *, size_t) = crc_portable;

#ifdef HARDWARE_CRC
/* The instruction gives a result every cycle but each takes three, so three stretches run side by side and
 * are joined: moving a CRC past n bytes is linear in its bits, hence four table look-ups for a fixed n. */
#define LONG_STRETCH 4096
#define SHORT_STRETCH 256

static uint32_t past_long[4][256], past_short[4][256];

static uint32_t times(const uint32_t matrix[32], uint32_t vector)
{
    uint32_t sum = 0;
    for (int bit = 0; vector; vector >>= 1, bit++)
        if (vector & 1)
            sum ^= matrix[bit];
    return sum;
}

static void fill_past(uint32_t past[4][256], unsigned stretch)
{
    uint32_t matrix[32], squared[32];
    for (int bit = 0; bit < 32; bit++) { /* one zero byte */
        uint32_t crc = (uint32_t)1 << bit;
        matrix[bit] = crc >> 8 ^ crc_table[0][crc & 0xff];
    }
    for (; stretch > 1; stretch >>= 1) { /* a stretch is a power of two */
        for (int bit = 0; bit < 32; bit++)
            squared[bit] = times(matrix, matrix[bit]);
        memcpy(matrix, squared, sizeof matrix);
    }
    for (int byte = 0; byte < 4; byte++)
        for (uint32_t value = 0; value < 256; value++)
            past[byte][value] = times(matrix, value << 8 * byte);
}

static inline uint32_t move_past(uint32_t past[4][256], uint32_t crc)
{
    return past[0][crc & 0xff] ^ past[1][crc >> 8 & 0xff] ^ past[2][crc >> 16 & 0xff] ^ past[3][crc >> 24];
}

static inline uint64_t load64(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, 8);
    return word;
}

__attribute__((target("sse4.2"))) static inline uint32_t
crc_three(uint32_t crc, const uint8_t *at, size_t stretch, uint32_t past[4][256])
{
    uint64_t first = crc, second = 0, third = 0;
    for (size_t i = 0; i < stretch; i += 8) {
        first = _mm_crc32_u64(first, load64(at + i));
        second = _mm_crc32_u64(second, load64(at + stretch + i));
        third = _mm_crc32_u64(third, load64(at + 2 * stretch + i));
    }
    crc = move_past(past, (uint32_t)first) ^ (uint32_t)second;
    return move_past(past, crc) ^ (uint32_t)third;
}

__attribute__((target("sse4.2"))) static uint32_t crc_hardware(uint32_t crc, const uint8_t *at, size_t size)
{
    for (; size >= 3 * LONG_STRETCH; at += 3 * LONG_STRETCH, size -= 3 * LONG_STRETCH)
        crc = crc_three(crc, at, LONG_STRETCH, past_long);
    for (; size >= 3 * SHORT_STRETCH; at += 3 * SHORT_STRETCH, size -= 3 * SHORT_STRETCH)
        crc = crc_three(crc, at, SHORT_STRETCH, past_short);
    for (; size >= 8; at += 8, size -= 8)
        crc = (uint32_t)_mm_crc32_u64(crc, load64(at));
    while (size--)
        crc = _mm_crc32_u8(crc, *at++);
    return crc;
}
#endif

void crc_prepare(void)
{
    for (uint32_t value = 0; value < 256; value++) {
        uint32_t crc = value;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82F63B78u : 0);
        crc_table[0][value] = crc;
    }
    for (int more = 1; more < 8; more++)
        for (int value = 0; value < 256; value++) {
            uint32_t before = crc_table[more - 1][value];
            crc_table[more][value] = before >> 8 ^ crc_table[0][before & 0xff];
        }
#ifdef HARDWARE_CRC
    if (__builtin_cpu_supports("sse4.2")) {
        fill_past(past_long, LONG_STRETCH);
        fill_past(past_short, SHORT_STRETCH);
        crc_update = crc_hardware;
    }
#endif
}

uint32_t crc32c(const uint8_t *data, size_t size, uint32_t crc)
{
    return ~crc_update(~crc, data, size);
}
