#include "cstdio"
