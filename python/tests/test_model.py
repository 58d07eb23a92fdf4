"""Models in Python have the numbers of the program, bit for bit, and wrong arrays are exceptions."""

from __future__ import annotations

import copy
import ctypes
import gc
import os
import pickle
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import orthornn
from orthornn._library import library

RANDOM = np.random.default_rng(7)

# Shapes of the sequences that models read: [B, T] of symbols, [B, T, K] of features.
INPUTS = {
    "copying": (5, 32), "expm": (5, 32), "lstm": (5, 32), "deltaproduct": (5, 8), "symbols": (5, 7),
    "text": (3, 30), "adding": (5, 11, 2), "class": (5, 9, 2), "step-value": (5, 9, 2), "mnist": (3, 784, 1),
}


def sequences_for(name: str) -> np.ndarray:
    if len(INPUTS[name]) == 3:
        return RANDOM.random(INPUTS[name], dtype=np.float32)
    return RANDOM.integers(0, 5, INPUTS[name], dtype=np.int32)


def predicted(program, model, folder, x, lengths=None, *options) -> dict[str, np.ndarray]:
    """What `orthornn predict` writes for sequences x."""
    given = {"symbols" if x.dtype.kind == "i" else "inputs": x}
    if lengths is not None:
        given["lengths"] = lengths
    np.savez(folder / "input.npz", **given)
    program("predict", model, folder / "input.npz", "--out", folder / "output.npz", "--overwrite", *options)
    with np.load(folder / "output.npz") as file:
        return dict(file)


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@pytest.mark.parametrize("name", [name for name in INPUTS if name != "text"])
def test_outputs_and_states_are_those_of_the_program(name, models, program, tmp_path):
    model = orthornn.load(models(name))
    x = sequences_for(name)
    expected = predicted(program, models(name), tmp_path, x, None, "--states")
    outputs = model.predict(x)
    assert outputs.dtype == np.float32
    assert same_bits(outputs, expected["outputs"])
    found = 0
    for layer, states in enumerate(model.states(x)):
        for state, values in states.items():
            key = f"states/{state}" + (str(layer) if len(model.options["cells"]) > 1 else "")
            assert same_bits(values, expected[key]), key
            found += 1
    assert found == sum(key.startswith("states/") for key in expected) > 0


def test_a_model_of_texts(models, program, tmp_path):
    h5py = pytest.importorskip("h5py")
    x = sequences_for("text")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = x.T
    program("predict", models("text"), tmp_path / "x.h5", "--out", tmp_path / "y.h5")
    with h5py.File(tmp_path / "y.h5") as file:
        expected = file["logits"][:]
    outputs = orthornn.load(models("text")).predict(x)
    assert same_bits(np.ascontiguousarray(outputs.swapaxes(0, 1)), expected)


@pytest.mark.parametrize("name", ["copying", "class", "step-value", "deltaproduct"])
def test_sequences_of_different_lengths(name, models, program, tmp_path):
    model = orthornn.load(models(name))
    x = sequences_for(name)
    lengths = np.array([3, 1, 8, 2, 5])
    rows = [sequence[:length] for sequence, length in zip(x, lengths)]
    expected = predicted(program, models(name), tmp_path, np.concatenate(rows), lengths)["outputs"]
    listed = model.predict(rows)
    padded = model.predict(x, lengths)
    if model.description["every_step"]:
        assert [len(sequence) for sequence in listed] == lengths.tolist()
        assert same_bits(np.concatenate(listed), expected)
        padded = np.concatenate([sequence[:length] for sequence, length in zip(padded, lengths)])
    else:
        assert same_bits(listed, expected)
    assert same_bits(padded, expected)
    for layer, of_list in zip(model.states(x, lengths), model.states(rows)):
        for state, values in layer.items():
            for b, length in enumerate(lengths):
                assert same_bits(values[b, :length], of_list[state][b])
                assert not values[b, length:].any()


def test_a_model_that_reads_backward_has_outputs_alone(models, program, tmp_path):
    model = orthornn.load(models("backward"))
    x = sequences_for("step-value")
    assert same_bits(model.predict(x), predicted(program, models("backward"), tmp_path, x)["outputs"])
    with pytest.raises(ValueError, match="no states at every step"):
        model.states(x)
    with pytest.raises(ValueError, match="step by step"):
        model.generator(1)


def test_a_model_that_reads_in_an_order_of_its_own_has_no_generator(models):
    model = orthornn.load(models("mnist"))
    assert model.description["causal"] and not model.description["step_by_step"]
    with pytest.raises(ValueError, match="cannot run step by step"):
        model.generator(1)
    with pytest.raises(ValueError, match="reads 784 steps in an order of its own"):
        library().orthornn_generator_create(model._handle, 1, ctypes.byref(ctypes.c_void_p()))
    assert orthornn.load(models("copying")).description["step_by_step"]


def test_padding_may_be_any_number(models):
    model = orthornn.load(models("step-value"))
    x = sequences_for("step-value")
    lengths = [3, 1, 9, 2, 5]
    expected = model.predict(x, lengths)
    for sequence, length in zip(x, lengths):
        sequence[length:] = np.nan
    assert same_bits(model.predict(x, lengths), expected)


def test_more_steps_than_are_computed_at_once(models, program, tmp_path):
    x = RANDOM.integers(0, 10, (3, 30000), dtype=np.int32)
    expected = predicted(program, models("copying"), tmp_path, x)["outputs"]
    assert same_bits(orthornn.load(models("copying")).predict(x), expected)


@pytest.mark.parametrize("name", [name for name in INPUTS if name != "mnist"])
def test_steps_one_by_one_are_those_of_whole_sequences(name, models):
    model = orthornn.load(models(name))
    x = sequences_for(name)
    outputs, states = model.predict(x), model.states(x)
    steps = model.generator(len(x))
    for _ in range(2):
        for t in range(x.shape[1]):
            output = steps.step(x[:, t])
            if model.description["every_step"]:
                assert same_bits(output, np.ascontiguousarray(outputs[:, t]))
            for layer, now in zip(states, steps.states):
                for state in layer:
                    assert same_bits(now[state], np.ascontiguousarray(layer[state][:, t]))
        if not model.description["every_step"]:
            assert same_bits(output, outputs)
        steps.reset()


def test_states_may_be_replaced(models):
    model = orthornn.load(models("lstm"))
    x = sequences_for("lstm")
    steps = model.generator(len(x))
    for t in range(10):
        steps.step(x[:, t])
    kept = steps.states
    expected = steps.step(x[:, 10])
    other = model.generator(len(x))
    other.states = kept
    assert same_bits(other.step(x[:, 10]), expected)
    with pytest.raises(ValueError, match=r"states\[0\]\['c'\] has the shape \[1\]"):
        other.states = [kept[0] | {"c": np.zeros(1)}]
    with pytest.raises(ValueError, match=r"states\[0\]\['h'\] is missing"):
        other.states = [{}]


@pytest.mark.parametrize("change", [
    np.asfortranarray, lambda x: x.astype(x.dtype.newbyteorder(">")), lambda x: x[::-1][::-1],
    lambda x: np.repeat(x, 2, axis=1)[:, ::2], lambda x: x.astype("f8" if x.dtype.kind == "f" else "u8"),
    lambda x: x.tolist(), lambda x: tuple(map(np.asarray, x))], ids=str)
@pytest.mark.parametrize("name", ["copying", "step-value"])
def test_any_strides_types_and_byte_orders(name, change, models):
    model = orthornn.load(models(name))
    x = sequences_for(name)
    assert same_bits(np.array(model.predict(change(x))), model.predict(x))


def test_no_sequences(models):
    assert orthornn.load(models("copying")).predict(np.zeros((0, 5), int)).shape == (0, 5, 9)
    assert orthornn.load(models("class")).predict(np.zeros((0, 5, 2))).shape == (0, 3)
    states = orthornn.load(models("lstm")).states(np.zeros((0, 5), int))
    assert states[0]["c"].shape == (0, 5, 16)


def test_sequences_without_steps(models):
    model = orthornn.load(models("class"))
    outputs = model.predict([np.zeros((0, 2)), np.ones((3, 2))])
    assert same_bits(outputs[1:], model.predict(np.ones((1, 3, 2))))
    assert np.isfinite(outputs).all()


def test_one_number_a_step_needs_no_axis(models):
    model = orthornn.load(models("mnist"))
    x = sequences_for("mnist")
    assert same_bits(model.predict(x[..., 0]), model.predict(x))


@pytest.mark.parametrize(("name", "x", "lengths", "error", "message"), [
    ("copying", np.zeros((2, 3, 4), int), None, ValueError, r"x has the shape \[2, 3, 4\].*symbols \[B, T\]"),
    ("copying", np.zeros(3, int), None, ValueError, r"x has the shape \[3\]"),
    ("copying", 1, None, ValueError, r"x has the shape \[\]"),
    ("copying", np.zeros((2, 3)), None, TypeError, "x has the type float64; expected whole numbers"),
    ("copying", np.full((2, 3), 10), None, ValueError, "^input symbol 10; expected 0 to 9"),
    ("copying", np.full((2, 3), -1), None, ValueError, "^input symbol -1; expected 0 to 9"),
    ("copying", np.full((2, 3), 1 << 40), None, ValueError, "x has numbers .*32 bits"),
    ("copying", np.full((2, 3), (1 << 64) - 1, np.uint64), None, ValueError, "^x has numbers .*32 bits"),
    ("copying", np.zeros((3, 0), int), None, ValueError, r"x has the shape \[3, 0\]"),
    ("copying", [], None, ValueError, "x has the shape"),
    ("copying", "text", None, TypeError, "x has the type"),
    ("copying", None, None, TypeError, "x has the type object"),
    ("copying", [[1, 2], [3]], None, ValueError, "x is no array"),
    ("copying", np.zeros((2, 3), int), [1, 4], ValueError, r"lengths\[1\] is 4; expected 0 to 3"),
    ("copying", np.zeros((2, 3), int), [1, -1], ValueError, r"lengths\[1\] is -1"),
    ("copying", np.zeros((2, 3), int), [1], ValueError, r"lengths has the shape \[1\]; expected \[2\]"),
    ("copying", np.zeros((2, 3), int), [1.0, 2.0], TypeError, "lengths has the type float64"),
    ("copying", [np.zeros(3, int)], [3], ValueError, "lengths is given beside a list"),
    ("copying", [np.zeros(3, int), np.zeros((3, 1), int)], None, ValueError, r"x\[1\] has the shape"),
    ("class", np.zeros((2, 3, 4)), None, ValueError, r"x has the shape \[2, 3, 4\].*\[B, T, 2\]"),
    ("class", np.zeros((2, 3)), None, ValueError, r"x has the shape \[2, 3\].*\[B, T, 2\]"),
    ("class", np.zeros((2, 3, 2), complex), None, TypeError, "x has the type complex128"),
    ("class", np.zeros((2, 3, 2), object), None, TypeError, "x has the type object"),
    ("class", np.full((2, 3, 2), np.nan), None, ValueError, "^input 0 of row 0 is missing"),
    ("class", np.full((2, 3, 2), 1e300), None, ValueError, "^input 0 of row 0 is infinite"),
    ("mnist", np.zeros((2, 3, 1)), None, ValueError, "^a sequence has 3 steps; this model reads 784 "),
])
def test_wrong_arrays_are_exceptions(name, x, lengths, error, message, models):
    model = orthornn.load(models(name))
    with pytest.raises(error, match=message):
        model.predict(x, lengths)
    with pytest.raises(error, match=message):
        model.states(x, lengths)


def test_wrong_steps_are_exceptions(models):
    model = orthornn.load(models("copying"))
    with pytest.raises(ValueError, match="batch is 0"):
        model.generator(0)
    steps = model.generator(2)
    for x, error, message in (([1], ValueError, r"^x has the shape \[1\]; expected 2 sequences"),
                              ([1.0, 2.0], TypeError, "^x has the type float64; expected whole numbers"),
                              ([1, 10], ValueError, "^input symbol 10; expected 0 to 9"),
                              ([[1, 2]], ValueError, r"^x has the shape \[1, 2\]")):
        with pytest.raises(error, match=message):
            steps.step(x)


def test_wrong_files_and_devices_are_exceptions(models, tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing.h5"):
        orthornn.load(tmp_path / "nothing.h5")
    (tmp_path / "text.h5").write_text("no model")
    with pytest.raises(orthornn.Error, match="text.h5"):
        orthornn.load(tmp_path / "text.h5")
    with pytest.raises(orthornn.Error):
        orthornn.load(tmp_path)
    for device in ("gpu", "cuda:", "cuda:-1", "cpu:0", "cuda:x", ""):
        with pytest.raises(ValueError, match="device is"):
            orthornn.load(models("copying"), device)
    with pytest.raises(TypeError, match="device is a int"):
        orthornn.load(models("copying"), 0)
    with pytest.raises(orthornn.Error):
        orthornn.load(models("copying"), "cuda:99999")
    with pytest.raises(ValueError, match="precision is 'fp16'"):
        orthornn.load(models("copying"), precision="fp16")
    with pytest.raises(orthornn.Error, match="missing"):
        orthornn.load(models("copying")).save(tmp_path / "missing" / "model.h5")


def test_parameters_and_options(models):
    h5py = pytest.importorskip("h5py")
    model = orthornn.load(models("copying"))
    with h5py.File(models("copying")) as file:
        assert len(model.parameters) == 6
        for name, values in model.parameters.items():
            assert same_bits(values, file[f"parameters/{name}"][:])
            assert not values.flags.writeable
    with pytest.raises(KeyError):
        model.parameters["nothing"]
    assert model.options["cells"][0]["hidden_size"] == 16
    assert model.task["name"] == "copying" and model.task["config"]["delay"] == 12
    assert "copying" in repr(model)
    assert orthornn.load(models("class")).class_names == ["0", "1", "2"]


def test_a_saved_model_has_the_numbers_of_the_first(models, tmp_path):
    model = orthornn.load(models("copying"))
    model.save(tmp_path / "copy.h5")
    copy = orthornn.load(str(tmp_path / "copy.h5"))
    x = sequences_for("copying")
    assert same_bits(copy.predict(x), model.predict(x))
    assert copy.task is None


def test_translations_are_those_of_the_program(models, program_file):
    model = orthornn.load(models("translate"))
    found = model.translate(["a k", "b i"], beam=3)
    assert [len(translations) for translations in found] == [3, 3]
    assert all(a["score"] >= b["score"] for ts in found for a, b in zip(ts, ts[1:]))
    result = subprocess.run([program_file, "translate", models("translate"), "--beam", "3"],
                            input="a k\nb i\n", text=True, capture_output=True, timeout=60)
    assert [translations[0]["text"] for translations in found] == result.stdout.splitlines()
    for wrong in (model.predict, model.states):
        with pytest.raises(ValueError, match="translate"):
            wrong([[1]])
    with pytest.raises(TypeError, match=r"sentences\[0\] is a int"):
        model.translate([1])


def test_texts_are_those_of_the_program(models, program):
    model = orthornn.load(models("text"))
    texts = set()
    for prompt, temperature, seed in ("that", 0.7, 5), ("", 1.0, 1), ("", 1.0, 2), ("to be", 0.0, 1):
        text = model.generate(prompt, 60, temperature, seed)
        options = ["--temperature", temperature, "--seed", seed, *(["--prompt", prompt] if prompt else [])]
        printed = program("predict", models("text"), "--generate", 60, *options)
        assert printed == (text if text.endswith("\n") else text + "\n") and len(text) == 60
        texts.add(text)
    assert len(texts) == 4
    for name, arguments in {"length": ("", 0), "temperature": ("", 5, -1.0), "seed": ("", 5, 1.0, -1),
                            "prompt": ("\0", 5)}.items():
        with pytest.raises(ValueError, match=name):
            model.generate(*arguments)
    with pytest.raises(TypeError, match="prompt is a int"):
        model.generate(1, 5)
    for name in "copying", "symbols", "translate":
        with pytest.raises(ValueError, match="knows no text"):
            orthornn.load(models(name)).generate("", 5)


def test_several_threads_take_turns(models):
    model = orthornn.load(models("copying"))
    x = sequences_for("copying")
    expected = model.predict(x)

    def work() -> bool:
        return all(same_bits(model.predict(x), expected) for _ in range(20))

    with ThreadPoolExecutor(4) as pool:
        assert all(right.result(60) for right in [pool.submit(work) for _ in range(4)])


def test_changes_of_a_description_do_not_reach_the_model(models):
    model = orthornn.load(models("class"))
    about = model.description
    about["outputs"] = 1
    about["states"][0]["shape"][0] = 1
    about["parameters"][0]["shape"][0] = 1
    model.options["cells"].clear()
    model.task["config"].clear()
    model.class_names.clear()
    assert model.description["outputs"] == 3 and model.description["states"][0]["shape"] == [16]
    assert model.options["cells"] and model.task["config"] and len(model.class_names) == 3
    steps = model.generator(64)
    assert steps.step(np.zeros((64, 2))).shape == (64, 3)
    assert steps.states[0]["h"].shape == (64, 16)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda f: f.__name__)
def test_models_and_generators_have_no_copies(copied, models):
    """A copy would have the same handle, and would use it when the first has given it back."""
    model = orthornn.load(models("copying"))
    for handle in (model, model.generator(2)):
        with pytest.raises(TypeError, match="neither copied nor pickled"):
            copied(handle)


def test_to_drop_a_generator_waits_for_no_model(models):
    """A thread drops generators wherever it collects garbage, also while it holds another model's lock."""
    model = orthornn.load(models("copying"))
    steps = model.generator(2)
    held, dropped, in_time = threading.Event(), threading.Event(), []

    def use() -> None:
        with model._used():
            held.set()
            in_time.append(dropped.wait(5))

    thread = threading.Thread(target=use)
    thread.start()
    assert held.wait(60)
    del steps
    dropped.set()
    thread.join(60)
    assert in_time == [True]
    assert len(model._gone_generators) == 1
    model.predict([[1]])
    assert len(model._gone_generators) == 0


# Python warns of threads in general; those of OpenMP are idle.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("is_used", [False, True])
def test_a_child_process_can_compute(models, is_used):
    """Also where a thread of the parent uses the model at the fork."""
    model = orthornn.load(models("copying"))
    x = sequences_for("copying")
    expected = model.predict(x)
    held, forked = threading.Event(), threading.Event()

    def use() -> None:
        with model._used():
            held.set()
            forked.wait(60)

    if is_used:
        threading.Thread(target=use).start()
        assert held.wait(60)
    child = os.fork()
    if child == 0:
        os._exit(0 if same_bits(model.predict(x), expected) else 1)
    forked.set()
    thread = threading.Timer(60, os.kill, (child, 9))
    thread.start()
    status = os.waitpid(child, 0)[1]
    thread.cancel()
    assert status == 0


def test_a_program_ends_while_a_thread_computes(models, tmp_path):
    program = f"""
import threading, time, numpy as np, orthornn
model = orthornn.load({str(models("copying"))!r})
x = np.zeros((64, 2000), int)
started = threading.Event()
def work():
    started.set()
    while True: model.predict(x)
threading.Thread(target=work, daemon=True).start()
started.wait()
time.sleep(0.2)  # until it is in the library
"""
    # A model that was given back too early crashed every second program.
    programs = [subprocess.Popen([sys.executable, "-c", program], text=True, stderr=subprocess.PIPE,
                                 cwd=tmp_path) for _ in range(8)]
    for running in programs:
        _, errors = running.communicate(timeout=120)
        assert running.returncode == 0, errors


def test_models_are_given_back(models, tmp_path):
    """Resident memory after many loads, outputs and generators: to keep them all would take 50 MB."""
    program = f"""
import gc, resource, numpy as np, orthornn
def once():
    model = orthornn.load({str(models("copying"))!r})
    steps = model.generator(64)
    steps.step(np.zeros(64, int))
    model.predict(np.zeros((64, 400), int))
for i in range(20): once()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for i in range(50): once()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    # In another folder than python/, whose package has no library.
    result = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, timeout=120,
                            cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 20_000  # KiB
    gc.collect()
