"""Writes oracles/quants/grid.h: `python oracles/quants/grid.py > oracles/quants/grid.h`.

The grid of IQ2_XXS is a table that GGUF's format fixes and nothing shorter describes. It comes from the `gguf` Python
package (gguf/quants.py, class IQ2_XXS; made with gguf 0.19.0): 256 rows of 8 magnitudes, each 8, 25 or 43. A row is
written as a number of base 3, the digit of element i worth 3^i.
"""

from __future__ import annotations

import gguf.quants


def main() -> None:
    kind = gguf.quants.IQ2_XXS
    kind.init_grid()
    rows = kind.grid.reshape(256, 8).astype(int).tolist()
    numbers = [sum((8, 25, 43).index(magnitude) * 3**i for i, magnitude in enumerate(row)) for row in rows]
    print(
        "/* grid.h - the grid of IQ2_XXS, by grid.py: rows as numbers of base 3, the digit of element i worth 3^i. */"
    )
    print("#ifndef DS4_ORACLE_GRID_H\n#define DS4_ORACLE_GRID_H\n\n#include <stdint.h>\n")
    print("static const uint16_t iq2_grid[256] = {")
    for at in range(0, 256, 16):
        print("    " + " ".join(f"{number}," for number in numbers[at : at + 16]))
    print("};\n\n#endif")


if __name__ == "__main__":
    main()
