#include "cstdlib"
