/* table.c - the oracles that there are. A new one joins by a line in each list. */
#include "oracles/common/oracle.h"

const oracle_kind *const oracle_kinds[] = {
    NULL,
};
