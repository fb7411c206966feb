#include "climits"
