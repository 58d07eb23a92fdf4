"""Prints how the norms of a model's states change over the steps: state_norms.py MODEL.h5

An orthogonal transition keeps norms, so a state neither fades nor grows by itself.
"""

import sys

import numpy as np

import orthornn


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("Usage: state_norms.py MODEL.h5")
    model = orthornn.load(sys.argv[1])
    print(model)
    random = np.random.default_rng(1)
    size = model.description["input_size"]
    if model.description["input"] == "symbols":
        x = random.integers(0, size, (16, 200))         # [B, T]
    else:
        x = random.random((16, 200, size))              # [B, T, K]
    for layer, states in enumerate(model.states(x)):
        for name, values in states.items():
            norms = np.linalg.norm(values.reshape(*values.shape[:2], -1), axis=-1).mean(axis=0)
            print(f"layer {layer}, state {name} {list(values.shape[2:])}")
            for t in range(0, len(norms), 20):
                bar = "#" * round(50 * norms[t] / norms.max())
                print(f"  step {t:3}  {norms[t]:8.3f}  {bar}")


if __name__ == "__main__":
    main()
