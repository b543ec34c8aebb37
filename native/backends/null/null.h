/* null.h - the parts of the null backend. */
#ifndef DS4_NULL_H
#define DS4_NULL_H

#include "native/ops/ds4_ops.h"

void null_record_dsv4(ds4_ops *ops);
void null_record_kin(ds4_ops *ops);

#endif
