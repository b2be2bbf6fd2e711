// The tile unit of AMX, for matmul_tiles.h. TileUnit has the instructions as static functions; tiles are numbers:
//
//   configure(config), release()    sets the shapes of all tiles; frees the unit
//   clear<tile>()                   all bytes 0
//   load<tile>(rows, stride)        reads the rows of a tile, stride bytes apart; a stride of 0 repeats one row
//   store<tile>(rows, stride)
//   add_signed<sums, a, b>()        sums[m][n] += a[m][4k + i] * b[k][4n + i] for all k, and i from 0 to 3, in int32;
//                                   bytes of a and b are signed
//   add_unsigned<sums, a, b>()      the same with unsigned bytes of a
//
// The set amx has the instructions, amxmodel has them in software.
#pragma once

#if defined(TESSERA_ISA_amxmodel)
#include "tessera/cpu/kernels/tile_unit_model.h"
#else
#include "tessera/cpu/kernels/tile_unit_amx.h"
#endif
