/* activations.h - the widths in which activations travel. Bits stand for values: a float is its 32 bits. */
#ifndef DS4_ORACLE_ACTIVATIONS_H
#define DS4_ORACLE_ACTIVATIONS_H

#include <stdint.h>

uint16_t half_of(uint32_t single);
uint32_t single_of_half(uint16_t half);
uint8_t e4m3_of(uint32_t single);
uint32_t single_of_e4m3(uint8_t code);

#endif
