/* turns.h - the conversation of `messages`. */
#ifndef DS4_ORACLE_REQUEST_TURNS_H
#define DS4_ORACLE_REQUEST_TURNS_H

#include "oracles/request/request.h"

bool read_turns(request *r);

#endif
