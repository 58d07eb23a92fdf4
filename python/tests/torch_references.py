"""The formulas of docs/math.md in PyTorch operations, one step after another, as references of tests."""

import torch


def product_of_reflections(vectors):
    """Q = H(v_1) .. H(v_L) of reflection vectors [L, N]."""
    q = torch.eye(vectors.shape[1], dtype=vectors.dtype)
    for v in vectors:
        u = v / v.norm()
        q = q - 2 * torch.outer(q @ u, u)
    return q


def cayley(x, negative_signs=0):
    """Q = (I + A)^-1 (I - A) D with A = X - X^T."""
    a, one = x - x.T, torch.eye(len(x), dtype=x.dtype)
    signs = torch.ones(len(x), dtype=x.dtype)
    signs[:negative_signs] = -1
    return torch.linalg.solve(one + a, one - a) * signs


def exponential(x):
    """Q = exp(X - X^T)."""
    return torch.linalg.matrix_exp(x - x.T)


def nearest_orthogonal(v):
    """Q = V (V^T V)^-1/2, by Newton's iteration, whose gradient needs no distinct singular values."""
    for _ in range(30):
        v = (v + torch.linalg.inv(v).T) / 2
    return v


TRANSITIONS = {"cwy": product_of_reflections, "householder": product_of_reflections, "cayley": cayley,
               "expm": exponential, "own": nearest_orthogonal}


def activate(name, a, modrelu_bias):
    if name == "modrelu":
        return torch.sign(a) * torch.relu(a.abs() + modrelu_bias)
    return {"tanh": torch.tanh, "relu": torch.relu, "abs": torch.abs, "identity": lambda x: x}[name](a)


def rollout(q, a, h, lengths=None, activation="modrelu", modrelu_bias=None):
    """Outputs [T, B, N] and the last live states [B, N] of h_t = sigma(Q h_{t-1} + a_t)."""
    outputs = []
    for t in range(len(a)):
        new = activate(activation, h @ q.T + a[t], modrelu_bias)
        live = torch.ones(len(h), dtype=torch.bool) if lengths is None else t < lengths
        outputs.append(torch.where(live[:, None], new, torch.zeros_like(new)))
        h = torch.where(live[:, None], new, h)
    return torch.stack(outputs) if outputs else torch.zeros_like(a), h


def delta_product(queries, keys, values, betas, log_decays=None,
                  removals=None, initial_states=None, scale=1.0):
    """Outputs [T, H, V] and final states [H, K, V] of one sequence, token by token, factor by factor."""
    state = initial_states
    if state is None:
        state = queries.new_zeros(queries.shape[1], queries.shape[2], values.shape[-1])
    outputs = []
    for t in range(len(queries)):
        if log_decays is not None:
            decay = log_decays[t].exp()
            state = state * (decay[:, :, None] if decay.ndim == 2 else decay[:, None, None])
        for j in range(keys.shape[1]):
            k, v, beta = keys[t, j], values[t, j], betas[t, j]
            expected = torch.einsum("hkv,hk->hv", state, k if removals is None else k * removals[t, j])
            state = state + torch.einsum("h,hk,hv->hkv", beta, k, v - expected)
        outputs.append(scale * torch.einsum("hkv,hk->hv", state, queries[t]))
    if not outputs:
        return queries.new_zeros(0, queries.shape[1], values.shape[-1]), state
    return torch.stack(outputs), state


def rank_one_chain(left, right, state):
    """Outputs [T, H, M] and final states [H, D, M] of s_t = (I + q_t k_t^T) s_{t-1}, one sequence."""
    outputs = []
    for q, k in zip(left, right):
        read = torch.einsum("hdm,hd->hm", state, k)
        state = state + torch.einsum("hd,hm->hdm", q, read)
        outputs.append(read)
    if not outputs:
        return left.new_zeros(0, left.shape[1], state.shape[-1]), state
    return torch.stack(outputs), state
