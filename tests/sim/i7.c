#include "sim.h"
int i7_run(int v) { (void)v; return 0; }
