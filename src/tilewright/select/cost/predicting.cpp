// `CostModel.parts` of cost.py for several models at a time: the selector asks for some in every first call of a shape.
//
// The formulas, and the order of the operations, are those of cost.py, which says what they mean; a test compares them
// on all tabled problems. A model whose room is not known, and one of the family Streaming, gets NaN: Python predicts it.

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace {

constexpr double UNKNOWN = std::numeric_limits<double>::quiet_NaN();
constexpr double IMPOSSIBLE = std::numeric_limits<double>::infinity();

// What a model says of all problems, as `CostModels` writes it down.
struct Model {
    double tile_m, tile_n, tile_k, workers, bundle, rows, cols, splits_k, group_m, multiprocessors, clock_mhz,
        l2_bytes_per_us, l2_bytes, dram_bytes_per_us, copied_bytes_per_us, copying_us, read, level_us, streams;
};

// `_Room`, but for its waves.
struct Room {
    double held, together, busy, alone, ends, store, tensor, once, aside, side_bytes, queued, copies_a, copies_b;
};

// Constants of cost.py and of models/warpgroups.py.
struct Constants {
    double launch_us, gather_us, straddle, sustained;
};

struct Problem {
    int64_t m, n, k, batch;
    double result_bytes, a_bytes, b_bytes, copied_a, copied_b, item_bytes;
};

int64_t over(int64_t value, int64_t unit) { return (value + unit - 1) / unit; }  // rounded up, of what is not negative

double join(double one, double other) {
    one *= one, other *= other;
    return std::sqrt(std::sqrt(one * one + other * other));
}

// `queue` of models/block.py.
double queue(int64_t customers, double service, double think) {
    double response = 0, waiting = 0;
    for (int64_t number = 1; number <= customers; ++number) {
        response = service * (1 + waiting);
        waiting = response != 0 ? number * response / (response + think) : 0;
    }
    return response + think;
}

struct Wave {
    double of_step, besides;

    Wave(const Room& room, int64_t blocks)
        : of_step(room.queued != 0 ? queue(blocks, room.busy, room.alone - room.busy) : join(blocks * room.busy, room.alone)),
          besides(room.ends + blocks * room.store) {}

    double cycles(double steps) const { return steps * of_step + besides; }
};

struct Work {
    int64_t whole, workers = 0, without = 0;
    double share = 0, parts = 1;
};

int64_t sharing(int64_t left, int64_t steps, int64_t most) {
    const int64_t workers = std::min(most, left * steps), of_tile = workers / left;
    return over(steps, of_tile) == over(left * steps, workers) ? left * of_tile : workers;
}

Work divide(int64_t most, int64_t tiles, int64_t steps) {
    const int64_t left = most != 0 ? tiles % most : 0;
    if (left == 0 || steps == 0) return {tiles};
    const int64_t workers = sharing(left, steps, most);
    const double begun = workers % left != 0 ? double(left) / workers : 0.0;
    return {tiles - left, workers, most - workers, over(left * steps, workers) + begun, double(workers) / left};
}

// The cycles of all waves, and of these the idle ones: `CostModel._cycles`.
double cycles_of(const Model& model, const Room& room, const Work& work, int64_t steps, bool after_relayout, double& idle) {
    const int64_t held = room.held, together = room.together, multiprocessors = model.multiprocessors, bundle = model.bundle;
    const int64_t full = work.whole / together, rest = work.whole % together;
    const double cycles = full * Wave(room, held).cycles(steps);
    if (rest == 0 && work.workers == 0) return cycles;
    int64_t own, workers;
    if (bundle == 1) {
        own = over(rest, multiprocessors), workers = over(work.workers, multiprocessors);
    } else {
        const int64_t bundles = over(rest + work.workers + work.without, bundle), each = over(bundles, multiprocessors);
        const int64_t of_bundle = over(rest, bundles);
        own = each * of_bundle, workers = each * std::min(bundle - of_bundle, over(work.workers, bundles));
    }
    if (full == 0 && own != 0 && workers != 0 && own + workers <= held && bundle == 1) {
        const int64_t more = after_relayout ? workers : 1;
        own += more, workers -= more;
    }
    const int64_t blocks = own + workers, rounds = over(blocks, held);
    const double longest = own != 0 ? steps + (rounds - 1) * work.share : rounds * work.share;
    const double last = join((own * steps + workers * work.share) * room.busy, longest * room.alone) + room.ends + blocks * room.store;
    const double until = work.share + 1;
    if (work.workers != 0 && own != 0 && rounds == 1 && until < steps) idle = last - Wave(room, blocks).cycles(until);
    return cycles + last + (workers != 0 ? room.ends : 0.0);
}

double from_dram(const Problem& p, const Model& model, int64_t held, int64_t tiles, int64_t across, double parts, double through_l2) {
    const int64_t at_a_time = int64_t(held * model.multiprocessors / parts);
    const int64_t running = std::max(std::min(at_a_time, tiles), int64_t(1));
    int64_t high = over(running, std::max(across, int64_t(1))), wide = std::min(running, across);
    if (model.group_m > 1) {
        high = std::min({int64_t(model.group_m), over(p.m, model.tile_m), running});
        wide = over(running, high);
    }
    const double a_wave = (high * model.tile_m + wide * model.tile_n) * p.k * p.item_bytes;
    return std::max(model.read * (p.a_bytes + p.b_bytes), std::min(model.read * a_wave * (double(tiles) / running), through_l2));
}

// Microseconds. rooms: without edges, and with.
double predict(const Problem& p, const Model& model, const Room* rooms, const Constants& constants) {
    const int64_t tile_m = model.tile_m, tile_n = model.tile_n, tile_k = model.tile_k, splits_k = model.splits_k;
    const int64_t multiprocessors = model.multiprocessors;
    const int64_t down = over(p.m, tile_m), across = over(p.n, tile_n);
    int64_t steps = over(p.k, tile_k), tiles = p.batch * down * across;
    const Room& room = rooms[down * tile_m != p.m || across * tile_n != p.n || steps * tile_k != p.k];
    if (std::isnan(room.held) || model.streams != 0) return UNKNOWN;
    if (room.held == 0) return IMPOSSIBLE;
    const int64_t held = room.held, together = room.together;
    const double copied = room.copies_a * p.copied_a + room.copies_b * p.copied_b;
    if (model.rows * model.cols * splits_k > 1) {
        const int64_t rows = model.rows, cols = model.cols;
        tiles = p.batch * over(down, rows) * rows * over(across, cols) * cols;
        steps = over(steps, splits_k);
    }
    int64_t whole = tiles * splits_k;
    double parts = 1, idle = 0, cycles;
    Work work = {tiles};
    if (model.workers > 0 || model.bundle > 1) work = divide(model.workers, tiles, steps);
    if (work.workers != 0 || model.bundle > 1) {
        whole = work.whole, parts = work.parts;
        cycles = cycles_of(model, room, work, steps, copied > 0, idle);
    } else {
        const int64_t full = whole / together, rest = whole - full * together;
        cycles = full * Wave(room, held).cycles(steps);
        if (rest != 0) cycles += Wave(room, over(rest, multiprocessors)).cycles(steps);
    }
    double blocks_us = cycles / model.clock_mhz;
    if (room.tensor != 0 && tiles != 0) {
        if (room.aside != 0) cycles = join(cycles, (cycles + (over(whole, together) - 1) * room.aside) / 2);
        cycles += room.once;
        const double share = whole * steps * room.tensor / multiprocessors / cycles;
        blocks_us = cycles / (model.clock_mhz * (share > constants.sustained ? std::cbrt(constants.sustained / share) : 1.0));
    }
    const double through_l2 = room.side_bytes * tiles * p.k + p.result_bytes;
    double dram = model.read * (p.a_bytes + p.b_bytes);
    if (dram > model.l2_bytes) dram = from_dram(p, model, held, tiles, across, parts * splits_k, through_l2);
    const double traffic_us = std::max(through_l2 / model.l2_bytes_per_us, (dram + p.result_bytes) / model.dram_bytes_per_us);
    double us = constants.launch_us + join(blocks_us, traffic_us);
    if (parts > 1) {
        const double straddle = std::fmod(parts, 1.0) != 0 ? constants.straddle : 0.0;
        us += std::max(std::ceil(std::log2(parts) + straddle) * model.level_us - idle / model.clock_mhz, 0.0);
    }
    if (copied != 0) us += model.copying_us + copied / model.copied_bytes_per_us;
    return us;
}

// predict(constants, models, rooms, numbers, m, n, k, batch, result, a, b, copied_a, copied_b, item): bytes, all from result on
PyObject* predict_all(PyObject*, PyObject* arguments) {
    Py_buffer constants, models, rooms;
    PyObject* numbers;
    long long sizes[4];
    Problem p;
    if (!PyArg_ParseTuple(arguments, "y*y*y*O!LLLLdddddd", &constants, &models, &rooms, &PyList_Type, &numbers, &sizes[0],
                          &sizes[1], &sizes[2], &sizes[3], &p.result_bytes, &p.a_bytes, &p.b_bytes, &p.copied_a,
                          &p.copied_b, &p.item_bytes)) {
        return nullptr;
    }
    p.m = sizes[0], p.n = sizes[1], p.k = sizes[2], p.batch = sizes[3];
    const Py_ssize_t count = models.len / Py_ssize_t(sizeof(Model)), asked = PyList_GET_SIZE(numbers);
    PyObject* found = nullptr;
    if (constants.len != Py_ssize_t(sizeof(Constants)) || models.len != count * Py_ssize_t(sizeof(Model)) ||
        rooms.len != count * 2 * Py_ssize_t(sizeof(Room))) {
        PyErr_SetString(PyExc_ValueError, "models and rooms must be of one size");
    } else {
        found = PyList_New(asked);
    }
    for (Py_ssize_t i = 0; found != nullptr && i < asked; ++i) {
        const Py_ssize_t number = PyLong_AsSsize_t(PyList_GET_ITEM(numbers, i));
        PyObject* us = nullptr;
        if (number >= 0 && number < count) {
            us = PyFloat_FromDouble(predict(p, static_cast<const Model*>(models.buf)[number],
                                            static_cast<const Room*>(rooms.buf) + 2 * number,
                                            *static_cast<const Constants*>(constants.buf)));
        } else if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_IndexError, "there is no model %zd", number);
        }
        if (us == nullptr) Py_CLEAR(found);
        else PyList_SET_ITEM(found, i, us);
    }
    for (Py_buffer* buffer : {&constants, &models, &rooms}) PyBuffer_Release(buffer);
    return found;
}

PyMethodDef methods[] = {{"predict", predict_all, METH_VARARGS, "Microseconds of runs: see comparing.py."}, {}};

PyModuleDef module = {PyModuleDef_HEAD_INIT, "_predicting", "Predictions of several cost models.", -1, methods};

}  // namespace

PyMODINIT_FUNC PyInit__predicting() {
    PyObject* created = PyModule_Create(&module);
    if (created != nullptr && PyModule_AddStringConstant(created, "SOURCE", SOURCE_DIGEST) < 0) Py_CLEAR(created);
    return created;
}
