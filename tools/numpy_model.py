#!/usr/bin/env python3
"""Computes what a model file of orthornn describes, with numpy and h5py alone, in float64.

    numpy_model.py MODEL.h5 INPUT.h5 -o OUTPUT.h5          write /logits
    numpy_model.py MODEL.h5 INPUT.h5 --compare OUTPUT.h5   compare with /logits, as `orthornn predict` writes it

INPUT.h5 is that of `orthornn predict`: /x, [T, B, K] floats or [T, B] integer symbols, and perhaps /lengths [B].
For a model of two sequences (an encoder and a decoder) it has the symbols /source [S, B] and /target [T, B], the begin
symbol of each answer first, and perhaps /source_lengths [B], /target_lengths [B] and the answers /classes [T, B].
With /classes the result is also /loss: the sum of -log(probability) over all answers that count, and their number.

include/orthornn/io/README.md has the formulas. Each function below is one of them.
T steps, B sequences; a layer reads x [T, B, K] and returns y [T, B, N] and its last states.
"""

import argparse
import json
import sys

import h5py
import numpy as np


# Numbers and vectors

def sigmoid(x):
    return 0.5 * (1 + np.tanh(0.5 * x))


def silu(x):
    return x * sigmoid(x)


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def unit(x):
    """Each vector (the last axis) divided by its norm; zeros stay zeros."""
    norm = np.linalg.norm(x, axis=-1, keepdims=True)
    return np.where(norm > 0, x / np.where(norm > 0, norm, 1), 0)


def rms_norm(x, gain, epsilon):
    return gain * x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + epsilon)


def multiply(weights, x):
    """W x at every step. A symbol s stands for the unit vector e_s, so that W x is column s of W."""
    return weights.T[x] if is_symbols(x) else x @ weights.T


def is_symbols(x):
    return x.ndim == 2


def live_steps(x, lengths):
    """[T, B]: whether a step is one of its sequence, and not padding."""
    return np.arange(len(x))[:, None] < lengths[None, :]


def pick(live, new, old):
    """`new` for sequences that are live [B], `old` for the others."""
    return np.where(live.reshape(live.shape + (1,) * (new.ndim - 1)), new, old)


# The matrix of an orthogonal recurrence

def product_of_reflections(vectors):
    """Q = H(v_1) H(v_2) .. H(v_L) with H(v) = I - 2 v v' / (v' v): h <- Q h applies the last reflection first."""
    q = np.eye(vectors.shape[1])
    for u in unit(vectors):
        q = q - 2 * np.outer(q @ u, u)
    return q


def skew(x):
    return x - x.T


def cayley(x, negative_signs):
    """Q = (I + A)^-1 (I - A) D: the first entries of the diagonal matrix D are -1, the others 1."""
    a, one = skew(x), np.eye(len(x))
    signs = np.where(np.arange(len(x)) < negative_signs, -1.0, 1.0)
    return np.linalg.solve(one + a, one - a) * signs


def exponential(x):
    """exp(A) of a skew-symmetric A, by the eigenvectors of the Hermitian matrix i A."""
    values, vectors = np.linalg.eigh(1j * skew(x))
    return np.real((vectors * np.exp(-1j * values)) @ vectors.conj().T)


def polar_factor(v):
    """V (V^T V)^(-1/2), by the singular value decomposition of V."""
    left, _, right = np.linalg.svd(v, full_matrices=False)
    return left @ right


def stiefel(p, prefix, kind):
    """Returns a matrix with orthonormal columns, or None where `kind` is a free matrix."""
    if kind == "stiefel":
        reflections = p[prefix + "reflection_vectors"]
        return product_of_reflections(reflections)[:, :len(reflections)]
    if kind == "own":
        return polar_factor(p[prefix + "proxy_matrix"])
    return p[prefix + "stiefel_matrix"] if kind == "matrix" else None


def transition(p, options):
    kind = options["kind"]
    if kind in ("cwy", "householder"):
        return product_of_reflections(p["reflection_vectors"])
    if kind == "cayley":
        return cayley(p["skew_parameters"], options["negative_signs"])
    if kind == "expm":
        return exponential(p["skew_parameters"])
    if kind == "own":
        return polar_factor(p["proxy_matrix"])
    if kind == "matrix":
        return p["stiefel_matrix"]
    if kind == "free":
        return p["matrix"]
    raise SystemExit(f"unknown transition '{kind}'")


# Layers: parameters p, options, x, lengths [B], and the states in which the sequences start, or None for their own.
# They return y and the states after the last live step of each sequence.

def activate(name, a, m):
    if name == "modrelu":
        return np.sign(a) * np.maximum(np.abs(a) + m, 0)
    return {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0), "abs": np.abs, "identity": lambda x: x}[name](a)


def orthogonal(p, options, x, lengths, start):
    """h_t = sigma(Q h_{t-1} + W x_t + b)"""
    q = transition(p, options["transition"])
    w = stiefel(p, "input_", options["input_matrix"])
    if w is None:
        w = p["input_weights"]
    own_start = p["initial_state"] if options.get("learn_initial_state", False) else np.zeros(len(q))
    h = start[0] if start else np.tile(own_start, (x.shape[1], 1))
    live, y = live_steps(x, lengths), []
    for arguments, now in zip(multiply(w, x) + p["bias"], live):
        new = activate(options["activation"], h @ q.T + arguments, p.get("modrelu_bias"))
        h = pick(now, new, h)
        y.append(pick(now, new, np.zeros_like(new)))
    return np.stack(y), [h]


def gates_of(p, options, x):
    """W x + b for all steps; the recurrent weights are a block of N rows for each gate."""
    return multiply(p["input_weights"], x) + p["input_bias"], options["hidden_size"]


def lstm(p, options, x, lengths, start):
    arguments, n = gates_of(p, options, x)
    h, c = start if start else (np.zeros((x.shape[1], n)), np.zeros((x.shape[1], n)))
    live, y = live_steps(x, lengths), []
    for a, now in zip(arguments, live):
        a = a + h @ p["recurrent_weights"].T + p["recurrent_bias"]
        i, f, g, o = (a[:, k * n:(k + 1) * n] for k in range(4))
        new_c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        new_h = sigmoid(o) * np.tanh(new_c)
        h, c = pick(now, new_h, h), pick(now, new_c, c)
        y.append(pick(now, new_h, np.zeros_like(new_h)))
    return np.stack(y), [h, c]


def gru(p, options, x, lengths, start):
    arguments, n = gates_of(p, options, x)
    h = start[0] if start else np.zeros((x.shape[1], n))
    live, y = live_steps(x, lengths), []
    for a, now in zip(arguments, live):
        b = h @ p["recurrent_weights"].T + p["recurrent_bias"]
        r = sigmoid(a[:, :n] + b[:, :n])
        z = sigmoid(a[:, n:2 * n] + b[:, n:2 * n])
        candidate = np.tanh(a[:, 2 * n:] + r * b[:, 2 * n:])
        new = (1 - z) * candidate + z * h
        h = pick(now, new, h)
        y.append(pick(now, new, np.zeros_like(new)))
    return np.stack(y), [h]


def convolve(filters, rows, history):
    """z_t = sum of filters[i] * rows[t - W + 1 + i], i = 0 .. W - 1: the filter of the step itself is the last one."""
    padded = np.concatenate([history, rows])
    return sum(f * padded[i:i + len(rows)] for i, f in enumerate(filters)), padded


def deltaproduct(p, options, x, lengths, start):
    heads, n = options["heads"], options["householder"]
    k_size, v_size = options["key_size"], options["value_size"]
    steps, batch = x.shape[:2]
    rwkv7 = options.get("factor", "householder") == "rwkv7"
    writes = not options.get("without_values", False)
    # 1. All projections of a step, one part after the other.
    rows = multiply(p["input_weights"], x) + p["input_bias"]
    channels = heads * k_size * (1 + n) + (heads * v_size * n if writes else 0)
    window = max(1, options["convolution"])
    history = np.zeros((window - 1, batch, channels))
    if start and window > 1:
        history = start[1].swapaxes(0, 1)
    z, padded = rows[:, :, :channels], None
    if "filters" in p:
        z, padded = convolve(p["filters"], z, history)
    if options.get("vector_activation", "silu") == "silu":
        z = silu(z)
    place = 0

    def part(of, *shape):
        nonlocal place
        size = int(np.prod(shape))
        place += size
        return of[:, :, place - size:place].reshape((steps, batch) + shape)

    queries = unit(part(z, heads, k_size))
    keys = unit(part(z, n, heads, k_size))
    values = part(z, n, heads, v_size) if writes else np.zeros((steps, batch, n, heads, v_size))
    gate = silu(part(rows, heads, v_size)) if options["output_gate"] else 1.0
    betas = options["beta_limit"] * sigmoid(part(rows, n, heads) + options.get("beta_offset", 0.0))
    log_decay = np.zeros((steps, batch, heads, 1))
    if options["state_decay"] and rwkv7:
        log_decay = -np.exp(-0.5) * sigmoid(part(rows, heads, k_size))
    elif options["state_decay"]:
        log_decay = -(np.exp(p["decay_rates"]) * softplus(part(rows, heads)))[..., None]
    removals = sigmoid(part(rows, n, heads, k_size)) if rwkv7 else np.ones_like(keys)
    # 2. The states S [B, H, K, V].
    own_start = p.get("initial_state", np.zeros((heads, k_size, v_size)))
    s = start[0] if start else np.tile(own_start, (batch, 1, 1, 1))
    live, outputs = live_steps(x, lengths), []
    for t in range(steps):
        new = np.exp(log_decay[t])[..., None] * s
        for j in range(n):
            k, v, beta = keys[t, :, j], values[t, :, j], betas[t, :, j]
            expected = np.einsum("bhkv,bhk->bhv", new, k * removals[t, :, j])
            new = new + np.einsum("bh,bhk,bhv->bhkv", beta, k, v - expected)
        s = pick(live[t], new, s)
        read = np.einsum("bhkv,bhk->bhv", new, queries[t])
        outputs.append(pick(live[t], read, np.zeros_like(read)))
    # 3. What is read from them.
    o = np.stack(outputs)
    if options["readout_norm"] == "rms":
        o = rms_norm(o, p["norm_gain"], options["norm_epsilon"])
    y = multiply(p["output_weights"], (o * gate).reshape(steps, batch, heads * v_size))
    last = [s]
    if window > 1:
        # The inputs of the convolution at the last steps of each sequence.
        last.append(np.stack([padded[length:length + window - 1, b] for b, length in enumerate(lengths)]))
    return y, last


def convolution(kernel, x):
    """Of x [.., H, W, C] with zeros around it, by a kernel [q, q, C, F]."""
    q, (height, width) = len(kernel), x.shape[-3:-1]
    around = [(0, 0)] * (x.ndim - 3) + [(q // 2, q // 2)] * 2 + [(0, 0)]
    padded = np.pad(x, around)
    return sum(padded[..., i:i + height, j:j + width, :] @ kernel[i, j] for i in range(q) for j in range(q))


def frames_of(options, rows):
    return rows.reshape(rows.shape[:-1] + (options["height"], options["width"], -1))


def kernel_of(options, rows):
    """A kernel [q, q, C, F] of its rows [q q C, F]."""
    q = options["kernel_size"]
    return rows.reshape(q, q, -1, rows.shape[1])


def convneru(p, options, x, lengths, start):
    """h_t = relu(K_h * h_{t-1} + K_x * x_t + b)"""
    f = options["hidden_size"]
    omega = stiefel(p, "hidden_", options["hidden_kernel"])
    hidden = p["hidden_kernel"] if omega is None else omega / options["kernel_size"]
    arguments = convolution(kernel_of(options, p["input_kernel"]), frames_of(options, x)) + p["bias"]
    h = start[0] if start else np.zeros((x.shape[1], options["height"] * options["width"] * f))
    live, y = live_steps(x, lengths), []
    for a, now in zip(arguments, live):
        a = a + convolution(kernel_of(options, hidden), frames_of(options, h))
        new = np.maximum(a, 0).reshape(h.shape)
        h = pick(now, new, h)
        y.append(pick(now, new, np.zeros_like(new)))
    return np.stack(y), [h]


def convlstm(p, options, x, lengths, start):
    """An LSTM whose maps are convolutions; with peepholes w its gates read the cells, each pixel its own."""
    f, batch = options["hidden_size"], x.shape[1]
    size = options["height"] * options["width"] * f
    w_i, w_f, w_o = p["peepholes"] if options["peepholes"] else np.zeros((3, 1))
    hidden = kernel_of(options, p["hidden_kernel"])
    arguments = convolution(kernel_of(options, p["input_kernel"]), frames_of(options, x)) + p["bias"]
    h, c = start if start else (np.zeros((batch, size)), np.zeros((batch, size)))
    live, y = live_steps(x, lengths), []
    for a, now in zip(arguments, live):
        a = a + convolution(hidden, frames_of(options, h))
        i, j, g, o = (a[..., k * f:(k + 1) * f].reshape(batch, size) for k in range(4))
        new_c = sigmoid(j + w_f * c) * c + sigmoid(i + w_i * c) * np.tanh(g)
        new_h = sigmoid(o + w_o * new_c) * np.tanh(new_c)
        h, c = pick(now, new_h, h), pick(now, new_c, c)
        y.append(pick(now, new_h, np.zeros_like(new_h)))
    return np.stack(y), [h, c]


def linear(p, options, x, lengths, start):
    return multiply(p["weight"], x) + p["bias"], []


def orthogonal_linear(p, options, x, lengths, start):
    """R x + c: R [N, K] is a point of a Stiefel manifold, or its transpose where it has fewer rows than columns."""
    omega = stiefel(p, "", options["matrix"])
    return multiply(omega if len(omega) == len(p["bias"]) else omega.T, x) + p["bias"], []


def orthogonal_conv(p, options, x, lengths, start):
    """K * x + c: q K [q q C, F] is a point of a Stiefel manifold, or its transpose where it has more columns."""
    omega = stiefel(p, "", options["kernel"])
    rows = (omega if omega.shape[1] == len(p["bias"]) else omega.T) / options["kernel_size"]
    y = convolution(kernel_of(options, rows), frames_of(options, x)) + p["bias"]
    return y.reshape(x.shape[:2] + (-1,)), []


def gated_mlp(p, options, x, lengths, start):
    a, c = np.split(x @ p["input_weights"].T, 2, axis=-1)
    return (silu(a) * c) @ p["output_weights"].T, []


def rms_norm_layer(p, options, x, lengths, start):
    return rms_norm(x, p["gain"], options["epsilon"]), []


def positions(p, options, x, lengths, start):
    """The state is the number of steps that a sequence has had."""
    before = start[0] if start else np.zeros((x.shape[1], 1))
    place = before[:, 0].astype(int)[None, :] + np.arange(len(x))[:, None]
    live = live_steps(x, lengths)
    vectors = p["vectors"][np.where(live, place, 0)]
    return x + np.where(live[..., None], vectors, 0), [before + lengths[:, None]]


def dropout(p, options, x, lengths, start):
    """Of training alone."""
    return x, []


def residual(p, options, x, lengths, start):
    change, last = stack(p, options["layers"], x, lengths, start)
    return x + change, last


def reverse(x, lengths):
    """The live steps of each sequence from the last to the first; padding stays where it is."""
    result = x.copy()
    for b, length in enumerate(lengths):
        result[:length, b] = x[:length, b][::-1]
    return result


def bidirectional(p, options, x, lengths, start):
    """States are those of the first direction, then those of the second."""
    half = len(start) // 2 if start else 0
    first, last = stack(within(p, "forward"), options["layers"], x, lengths, start[:half] if start else None)
    second, last2 = stack(within(p, "backward"), options["layers"], reverse(x, lengths), lengths,
                          start[half:] if start else None)
    return np.concatenate([first, reverse(second, lengths)], axis=-1), last + last2


LAYERS = {"orthogonal": orthogonal, "lstm": lstm, "gru": gru, "deltaproduct": deltaproduct, "convneru": convneru,
          "convlstm": convlstm, "linear": linear, "orthogonal_linear": orthogonal_linear,
          "orthogonal_conv": orthogonal_conv, "gated_mlp": gated_mlp, "rms_norm": rms_norm_layer,
          "positions": positions, "dropout": dropout,
          "residual": residual, "bidirectional": bidirectional}
STATES = {"orthogonal": lambda o: 1, "lstm": lambda o: 2, "gru": lambda o: 1, "convneru": lambda o: 1,
          "convlstm": lambda o: 2, "positions": lambda o: 1,
          "deltaproduct": lambda o: 2 if o["convolution"] > 1 else 1,
          "residual": lambda o: sum(map(state_count, o["layers"])),
          "bidirectional": lambda o: 2 * sum(map(state_count, o["layers"]))}
# Their state is their output at the last live step, and where they start in a sequence without a step.
ENDS_IN_STATE = ("orthogonal", "lstm", "gru", "convneru", "convlstm")


def kind_of(options):
    return options.get("kind", "orthogonal")  # files of version 1


def state_count(options):
    return STATES.get(kind_of(options), lambda o: 0)(options)


def layer(p, options, x, lengths, start=None):
    if kind_of(options) not in LAYERS:
        raise SystemExit(f"unknown layer '{kind_of(options)}'")
    return LAYERS[kind_of(options)](p, options, x, lengths, start)


def stack(p, layers, x, lengths, start=None):
    """Layers one on the other, with the parameters 0/.., 1/.. and the states of all, in their order."""
    last, place = [], 0
    for i, options in enumerate(layers):
        count = state_count(options)
        own_start = start[place:place + count] if start else None
        x, own_last = layer(within(p, str(i)), options, x, lengths, own_start)
        last, place = last + own_last, place + count
    return x, last


# Models

def within(p, prefix):
    """The parameters PREFIX/.., by the rest of their names."""
    return {name[len(prefix) + 1:]: value for name, value in p.items() if name.startswith(prefix + "/")}


def sequence_model(p, options, x, lengths):
    """Input -> layers -> readout: [T, B, C] of every step or of its pixels, or [B, C] of the last one."""
    if options["input"]["kind"] == "embedding":
        x = p["embedding/vectors"][x]
    elif options["input"]["kind"] == "dense":
        x = np.where(live_steps(x, lengths)[..., None], x, 0)
    cells = options["cells"]
    last = []
    for i, cell in enumerate(cells):
        x, last = layer(within(p, "cell" if len(cells) == 1 else f"cell{i}"), cell, x, lengths)
    if options["readout"]["kind"] == "last_step":
        if kind_of(cells[-1]) in ENDS_IN_STATE:
            x = last[0]
        else:  # zeros for a sequence without a step
            x = np.stack([x[n - 1, b] if n > 0 else np.zeros(x.shape[2]) for b, n in enumerate(lengths)])
    if options["readout"]["kind"] == "every_pixel":
        y = x.reshape(x.shape[:2] + (options["readout"]["pixels"], -1)) @ p["readout/weight"].T + p["readout/bias"]
        return y.reshape(x.shape[:2] + (-1,))
    return x @ p["readout/weight"].T + p["readout/bias"]


def log_softmax(x):
    x = x - np.max(x, axis=-1, keepdims=True)
    return x - np.log(np.sum(np.exp(x), axis=-1, keepdims=True))


def attention(queries, keys, lengths):
    """Contexts [T, B, K]: for each query the keys, weighted by the softmax of q . k / sqrt(K) over the live keys."""
    scores = np.einsum("tbk,sbk->tbs", queries, keys) / np.sqrt(keys.shape[2])
    live = live_steps(keys, lengths).T[None]
    scores = np.where(live, scores, -np.inf)
    largest = np.where(lengths[None, :, None] > 0, np.max(scores, axis=-1, keepdims=True), 0)
    weights = np.exp(scores - largest)
    total = np.sum(weights, axis=-1, keepdims=True)
    return np.einsum("tbs,sbk->tbk", weights / np.where(total > 0, total, 1), keys)


def encoder_decoder(p, options, source, source_lengths, target, target_lengths):
    """The logits [T, B, V] of every next symbol, for the symbols of the answer so far."""
    keys, last = stack(within(p, "encoder"), options["encoder"], p["source_embedding/vectors"][source],
                       source_lengths)
    # The decoder starts from the encoder's last states where these fit.
    x = p["target_embedding/vectors"][target]
    own = stack(within(p, "decoder"), options["decoder"], x[:1], np.minimum(target_lengths, 1))[1]
    fits = len(last) > 0 and [a.shape for a in last] == [b.shape for b in own]
    h, _ = stack(within(p, "decoder"), options["decoder"], x, target_lengths, last if fits else None)
    contexts = attention(linear(within(p, "attention/query"), {}, h, None, None)[0], keys, source_lengths)
    both = np.concatenate([contexts, h], axis=-1)
    y = np.tanh(linear(within(p, "attention/vector"), {}, both, None, None)[0])
    weight = p["target_embedding/vectors"] if options["tied"] else p["output/weight"]
    return y @ weight.T + p["output/bias"]


def loss(logits, classes, lengths):
    """[sum, count] of -log softmax(logits)[class]. A negative class does not count, nor does one beyond the length."""
    counts = live_steps(logits, lengths) & (classes >= 0)
    chosen = np.take_along_axis(log_softmax(logits), np.where(counts, classes, 0)[..., None], axis=-1)[..., 0]
    return np.array([-np.sum(chosen[counts]), np.sum(counts)], dtype=float)


# Files

def read_model(file):
    """Options, parameters by their names, and the order in which a permuted task reads its steps, or None."""
    with h5py.File(file, "r") as h5:
        if h5.attrs.get("format") != b"orthornn-model":
            raise SystemExit(f"{file}: no model of orthornn")
        options = json.loads(h5.attrs["config"].decode())["model"]
        p = {}
        h5["parameters"].visititems(
            lambda name, item: p.update({name: item[()].astype(float)}) if isinstance(item, h5py.Dataset) else None)
        order = h5["task/permutation"][()] if "task/permutation" in h5 else None
    return options, p, order


def read_input(file):
    with h5py.File(file, "r") as h5:
        return {name: item[()] for name, item in h5.items()}


def lengths_of(data, name, x):
    return data[name].astype(int) if name in data else np.full(x.shape[1], x.shape[0])


def compute(model_file, input_file):
    """The datasets of the output, by name."""
    options, p, order = read_model(model_file)
    data = read_input(input_file)
    kind = options.get("kind")
    if kind == "encoder_decoder":
        source, target = data["source"], data["target"]
        target_lengths = lengths_of(data, "target_lengths", target)
        logits = encoder_decoder(p, options, source, lengths_of(data, "source_lengths", source), target,
                                 target_lengths)
        if "classes" not in data:
            return {"logits": logits}
        return {"logits": logits, "loss": loss(logits, data["classes"], target_lengths)}
    if kind is not None:
        raise SystemExit(f"{model_file}: its model is one of the kind '{kind}', which this script does not know")
    x = data["x"] if order is None else data["x"][order]
    return {"logits": sequence_model(p, options, x, lengths_of(data, "lengths", x))}


def compare(found, file, tolerance):
    """Whether each dataset that the file has too is the same, up to `tolerance` times its largest number."""
    expected = read_input(file)
    same, compared = True, 0
    for name in [name for name in found if name in expected]:
        if found[name].shape != expected[name].shape:
            raise SystemExit(f"/{name} has shape {list(found[name].shape)}, in {file} {list(expected[name].shape)}")
        difference = np.max(np.abs(found[name] - expected[name]), initial=0)
        largest = np.max(np.abs(expected[name]), initial=0)
        good = difference <= tolerance * largest
        print(f"{file}: /{name} {list(found[name].shape)} differs by at most {difference:.3g}, "
              f"its largest number is {largest:.3g}: {'equal' if good else 'NOT EQUAL'} within {tolerance:g} of it")
        same, compared = same and bool(good), compared + 1
    if compared == 0:
        raise SystemExit(f"{file}: it has no /logits to compare with")
    return same


def main(arguments=None):
    """Returns the exit status: 1 where a comparison fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("input")
    parser.add_argument("-o", "--output", help="HDF5 file to write; it must not exist")
    parser.add_argument("--compare", metavar="OUTPUT", help="HDF5 file that `orthornn predict` wrote")
    parser.add_argument("--tolerance", type=float, default=1e-3,
                        help="share of the largest number (default %(default)g: each step adds roundings of float32, "
                        "6e-8 each)")
    chosen = parser.parse_args(arguments)
    if chosen.output is None and chosen.compare is None:
        parser.error("expected -o OUTPUT.h5 or --compare OUTPUT.h5")
    try:
        found = compute(chosen.model, chosen.input)
        if chosen.output is not None:
            with h5py.File(chosen.output, "w-") as h5:
                for name, value in found.items():
                    h5[name] = value
            shapes = ", ".join(f"/{name} {list(value.shape)}" for name, value in found.items())
            print(f"{chosen.output}: {shapes}")
        return 0 if chosen.compare is None or compare(found, chosen.compare, chosen.tolerance) else 1
    except KeyError as error:
        raise SystemExit(f"numpy_model.py: {error} is missing in {chosen.model} or {chosen.input}") from None
    except OSError as error:
        raise SystemExit(f"numpy_model.py: {error}") from None


if __name__ == "__main__":
    sys.exit(main())
