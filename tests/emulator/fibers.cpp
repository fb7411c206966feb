// Fibers in a ring, each of which goes on where it stopped, with what is on its stack.
#include "fiber.hpp"

using simt::Context;
using simt::Stacks;

constexpr int FIBERS = 9, TURNS = 20;

static Context host, fibers[FIBERS];
static int turn_of, sums[FIBERS];
static bool owned;

static void hand_over(int self) {
    turn_of = (self + 1) % FIBERS;
    Context::switch_to(fibers[self], fibers[turn_of]);
}

static void live() {
    const int self = turn_of;
    volatile int sum = self;
    for (int turn = 0; turn < TURNS; ++turn) {
        sum = sum + turn * self;
        owned = owned && Stacks::owner_here() == &host;
        hand_over(self);
    }
    sums[self] = sum;
    if (self + 1 == FIBERS) Context::switch_to(fibers[self], host);
    hand_over(self);
}

// The sum that each fiber has made, or -1 where one did not find the owner of its stack.
extern "C" void run_fibers(int* out) {
    Stacks stacks(&host);
    turn_of = 0;
    owned = true;
    for (int i = 0; i < FIBERS; ++i) fibers[i].prepare(stacks.end(i), Stacks::SIZE, live);
    Context::switch_to(host, fibers[0]);
    for (int i = 0; i < FIBERS; ++i) out[i] = owned ? sums[i] : -1;
}
