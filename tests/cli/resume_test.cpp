// Training N steps, or N/2, --resume and N/2 more: the same bits.

#include <fmt/format.h>
#include <sys/file.h>

#include <fstream>
#include <initializer_list>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "cli/tiny_mnist.hpp"
#include "orthornn/io/hdf5.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;

namespace {

/// The first column of metrics.csv.
std::vector<std::string> logged_steps(const fs::path& run_folder) {
  std::ifstream stream(run_folder / "metrics.csv");
  std::vector<std::string> steps;
  for (std::string line; std::getline(stream, line);) steps.push_back(line.substr(0, line.find(',')));
  return steps;
}

const std::vector<std::string> six_steps = {"step", "1", "2", "3", "4", "5", "6"};

/// `train(out, more)` gives the arguments. Six steps at once against three and three.
template <class Train>
void check_same_bits(const TemporaryFolder& folder, const Train& train, const Arguments& second_half = {}) {
  // A cosine would end elsewhere when the steps change.
  const Arguments every = {"--log-every", "1", "--eval-every", "3", "--schedule", "constant"};
  const fs::path whole = folder / "whole", halves = folder / "halves";
  check_success(run(train(whole, every + Arguments{"--steps", "6"})));
  check_success(run(train(halves, every + Arguments{"--steps", "3"})));
  CHECK((training_content(halves / "model.h5") != training_content(whole / "model.h5")));
  const ProgramResult resumed =
      run(Arguments{"train", "--resume", "--steps", "6", "--out", halves.string()} + second_half);
  check_success(resumed);
  CHECK_THAT(resumed.output, contains("going on after step 3"));

  CHECK((training_content(halves / "model.h5") == training_content(whole / "model.h5")));
  CHECK((content(halves / "model.h5") == content(whole / "model.h5")));
  CHECK(logged_steps(halves) == six_steps);
  CHECK(metrics_without_time(halves) == metrics_without_time(whole));
  fs::remove_all(whole);
  fs::remove_all(halves);
}

/// Changes a bit of the readout's weights.
void damage_numbers(const fs::path& file) {
  std::string damaged = content(file);
  const Tensor<float> numbers = Hdf5Reader(file).read<float>("parameters/readout/weight");
  const std::size_t place =
      damaged.find(std::string(reinterpret_cast<const char*>(numbers.data()), 8 * sizeof(float)));
  REQUIRE(place != std::string::npos);
  damaged[place] = static_cast<char>(damaged[place] ^ 1);
  std::ofstream(file, std::ios::binary) << damaged;
}

}  // namespace

TEST_CASE("a resumed training of the copying task has the bits of an uninterrupted one",
          "[cli][resume][long]") {
  const TemporaryFolder folder;
  for (const char* optimizer : {"sgd", "rmsprop", "adam", "adamw"}) {
    CAPTURE(optimizer);
    check_same_bits(folder, [&](const fs::path& out, const Arguments& more) {
      return train_copying(
          out, Arguments{"--optimizer", optimizer, "--weight-decay", "0.01", "--warmup", "5"} + more);
    });
  }
}

TEST_CASE("a resumed training of every cell has the bits of an uninterrupted one", "[cli][resume][long]") {
  const TemporaryFolder folder;
  for (const char* cell : {"householder", "cayley", "expm", "own", "matrix", "free"}) {
    CAPTURE(cell);
    check_same_bits(folder, [&](const fs::path& out, const Arguments& more) {
      return train_copying(out, Arguments{"--cell", cell, "--layers", "2", "--activation", "tanh"} + more);
    });
  }
}

TEST_CASE("a resumed Riemannian training has the bits of an uninterrupted one", "[cli][resume][long]") {
  const TemporaryFolder folder;
  for (const char* optimizer : {"rgd", "rgd-adam"}) {
    for (const char* retraction : {"qr", "cayley"}) {
      CAPTURE(optimizer, retraction);
      check_same_bits(folder, [&](const fs::path& out, const Arguments& more) {
        return train_copying(out, Arguments{"--cell", "matrix", "--optimizer", optimizer, "--metric",
                                            "euclidean", "--retraction", retraction, "--lr-orth", "0.1",
                                            "--weight-decay", "0.01", "--warmup", "5"} +
                                      more);
      });
    }
  }
}

TEST_CASE("a resumed training of MNIST crosses epochs with the same bits", "[cli][resume][long]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  // Two batches a pass: the first half ends within one.
  for (const bool permuted : {false, true}) {
    CAPTURE(permuted);
    check_same_bits(folder, [&](const fs::path& out, const Arguments& more) {
      return train_mnist(
          folder / "data", out,
          (permuted ? Arguments{"--permuted", "--permutation-seed", "5"} : Arguments{}) + more);
    });
  }
}

TEST_CASE("a resumed training whose steps have several batches crosses epochs with the same bits",
          "[cli][resume][long]") {
  const TemporaryFolder folder;
  write_tiny_mnist(folder / "data");
  check_same_bits(folder, [&](const fs::path& out, const Arguments& more) {
    return train_mnist(folder / "data", out, Arguments{"--accumulate", "3"} + more);
  });
}

TEST_CASE("a training goes on with the same bits on another number of threads", "[cli][resume]") {
  const TemporaryFolder folder;
  check_same_bits(folder,
                  [&](const fs::path& out, const Arguments& more) {
                    return train_copying(out, Arguments{"--threads", "1"} + more);
                  },
                  {"--threads", "2"});
}

TEST_CASE("a training can be resumed again and again", "[cli][resume][long]") {
  const TemporaryFolder folder;
  const fs::path whole = folder / "whole", parts = folder / "parts";
  const Arguments every = {"--log-every", "1", "--eval-every", "1", "--schedule", "constant"};
  check_success(run(train_copying(whole, every + Arguments{"--steps", "6"})));
  check_success(run(train_copying(parts, every + Arguments{"--steps", "1"})));
  for (int steps = 2; steps <= 6; ++steps) {
    check_success(
        run({"train", "copying", "--resume", "--steps", std::to_string(steps), "--out", parts.string()}));
  }
  CHECK((content(parts / "model.h5") == content(whole / "model.h5")));
  CHECK(logged_steps(parts) == six_steps);

  // Nothing left to do is no mistake and changes nothing.
  check_success(run({"train", "--resume", "--out", parts.string()}));
  CHECK((content(parts / "model.h5") == content(whole / "model.h5")));
  CHECK(logged_steps(parts) == six_steps);
}

TEST_CASE("a run that was moved can be resumed where it is", "[cli][resume]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "old", {"--steps", "2"})));
  fs::rename(folder / "old", folder / "new");
  check_success(run({"train", "--resume", "--steps", "3", "--out", (folder / "new").string()}));
  CHECK(steps_in(folder / "new/model.h5") == 3);
  CHECK_FALSE(fs::exists(folder / "old"));
}

TEST_CASE("steps and learning rates may change where a training is resumed", "[cli][resume]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, {"--steps", "2", "--log-every", "1", "--schedule", "constant"})));
  check_success(run({"train", "--resume", "--steps", "4", "--lr", "0.5", "--out", out.string()}));
  CHECK(steps_in(out / "model.h5") == 4);
  CHECK_THAT(content(out / "config.toml"), contains("\nlr = 0.5\n"));
  CHECK_THAT(content(out / "config.toml"), contains("\nsteps = 4\n"));
  CHECK_THAT(content(out / "metrics.csv"), contains(",0.5,"));
}

TEST_CASE("a resumption that cannot be is refused and changes nothing", "[cli][resume]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, {"--steps", "2"})));
  const std::string model = content(out / "model.h5"), config = content(out / "config.toml"),
                    metrics = content(out / "metrics.csv");
  const auto resume = [&](const Arguments& more) {
    return run(Arguments{"train", "--resume", "--steps", "4", "--out", out.string()} + more);
  };
  const auto keeps = [&](const char* flag, const std::string& given, const std::string& kept) {
    const std::string found = fmt::format("the training in '{}' has {} {}: ", out.string(), flag, kept);
    check_refused(
        resume({flag, given}), 2,
        {fmt::format("{} {} was given", flag, given), found, "its own", fmt::format("leave out {}", flag)});
  };
  keeps("--hidden", "9", "8");
  keeps("--cell", "expm", "cwy");
  keeps("--layers", "2", "1");
  keeps("--activation", "tanh", "modrelu");
  keeps("--optimizer", "adam", "rmsprop");
  keeps("--seed", "2", "1");
  keeps("--batch", "5", "4");
  keeps("--delay", "4", "3");
  check_refused(run({"train", "adding", "--resume", "--out", out.string()}), 2, {"copying", "adding"});
  check_refused(run({"train", "--resume"}), 2, {"--out"});
  check_refused(run({"train", "--resume", "--out", (folder / "none").string()}), 1,
                {(folder / "none").string(), "config.toml"});
  CHECK_FALSE(fs::exists(folder / "none"));
  CHECK((content(out / "model.h5") == model));
  CHECK((content(out / "config.toml") == config));
  CHECK((content(out / "metrics.csv") == metrics));
}

TEST_CASE("a DeltaProduct network is resumed with its own options, whatever others would need",
          "[cli][resume]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(
      {"train",       "words", "--length",        "12",   "--batch",    "4", "--cell",       "deltaproduct",
       "--hidden",    "8",     "--heads",         "2",    "--key-size", "4", "--value-size", "4",
       "--positions", "12",    "--block-dropout", "0.25", "--steps",    "1", "--out",        out.string()}));
  const auto resume = [&](const Arguments& more) {
    return run(Arguments{"train", "--resume", "--steps", "2", "--out", out.string()} + more);
  };
  check_refused(resume({"--heads", "4"}), 2, {"--heads 4 was given", "has --heads 2: "});
  check_refused(resume({"--block-dropout", "0"}), 2, {"--block-dropout 0 was", "has --block-dropout 0.25: "});
  // Of too few positions, or of a sequence that is too long for them, no advice is given.
  check_refused(resume({"--positions", "4"}), 2, {"--positions 4 was given", "has --positions 12: "});
  check_refused(resume({"--length", "20"}), 2, {"--length 20 was given", "has --length 12: "});
  // The same numbers in another form are no others.
  check_success(resume({"--block-dropout", "2.5e-1", "--positions", "12"}));
}

TEST_CASE("where model.h5 alone is damaged, the refusal says how to go on from best.h5", "[cli][resume]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run", last = out / "model.h5", best = out / "best.h5";
  // One evaluation, so that the best model is of an earlier step than the last one.
  check_success(run(train_copying(out, {"--steps", "4", "--eval-every", "3", "--schedule", "constant"})));
  fs::resize_file(last, fs::file_size(last) / 2);
  const Arguments resume = {"train", "--resume", "--steps", "6", "--out", out.string()};
  check_refused(run(resume), 1,
                {last.string(), "Rename '" + last.string() + "' to go on from '" + best.string()});
  const std::string kept = content(best);
  fs::resize_file(best, fs::file_size(best) / 2);
  const ProgramResult both = run(resume);
  check_refused(
      both, 1,
      {last.string(), "it is truncated", "'" + best.string() + "' is refused too: ", "another --out"});
  CHECK_THAT(both.errors, !contains("Rename"));
  std::ofstream(best, std::ios::binary) << kept;
  fs::remove(last);
  const ProgramResult resumed = run(resume);
  check_success(resumed);
  CHECK_THAT(resumed.output, contains("going on from '" + best.string()));
}

TEST_CASE("where the settings of both files are refused, both reasons are named", "[cli][resume]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run", last = out / "model.h5", best = out / "best.h5";
  const auto train = [&](const fs::path& to, const Arguments& more) {
    check_success(run(
        Arguments{"train", "copying", "--delay", "3", "--batch", "4", "--steps", "2", "--out", to.string()} +
        more));
  };
  train(out, {"--hidden", "8"});
  const std::string settings = content(out / "config.toml");
  std::string edited = settings;
  edited.replace(edited.find("hidden = 8"), 10, "hidden = 9");
  std::ofstream(out / "config.toml") << edited;
  const ProgramResult edited_settings = run({"train", "--resume", "--steps", "4", "--out", out.string()});
  check_refused(edited_settings, 1,
                {last.string() + " holds another model", "hidden_size is 8 there and 9 here",
                 "The same is true of '" + best.string() + "'", "the settings of both files"});
  CHECK_THAT(edited_settings.errors, !contains("Rename") && !contains("refused too"));
  std::ofstream(out / "config.toml") << settings;
  train(folder / "smaller", {"--hidden", "6"});
  train(folder / "seed", {"--hidden", "8", "--seed", "2"});
  fs::copy_file(folder / "smaller/model.h5", last, fs::copy_options::overwrite_existing);
  const auto refused = [&](const std::string& reason) {
    const ProgramResult result = run({"train", "--resume", "--steps", "4", "--out", out.string()});
    check_refused(result, 1, {last.string() + " holds another model", reason});
    return result;
  };
  refused("Rename '" + last.string() + "' to go on from '" + best.string());
  fs::copy_file(folder / "seed/best.h5", best, fs::copy_options::overwrite_existing);
  const ProgramResult both = refused(best.string() + " holds another stream of data");
  CHECK_THAT(both.errors, contains("another --out") && !contains("Rename"));
  fs::remove(best);
  CHECK_THAT(refused("hidden_size").errors, !contains("best.h5"));
}

TEST_CASE("a file whose numbers are damaged is refused, and the refusal says how to go on", "[cli][resume]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run", last = out / "model.h5", best = out / "best.h5";
  check_success(run(train_copying(out, {"--steps", "4", "--eval-every", "3", "--schedule", "constant"})));
  const auto check_way = [&](const fs::path& file, const std::string& way) {
    const std::string whole = content(file);
    damage_numbers(file);
    check_refused(
        run({"train", "--resume", "--steps", "6", "--out", out.string()}), 1,
        {"parameters/readout/weight", "it is damaged", "Rename '" + file.string() + "' to go on " + way});
    std::ofstream(file, std::ios::binary) << whole;
  };
  check_way(last, "from '" + best.string());
  check_way(best, "without it");
}

TEST_CASE("where the numbers of both files are damaged, no way is named that does not lead on",
          "[cli][resume]") {
  const TemporaryFolder folder;
  const Arguments often = {"--eval-every", "1", "--schedule", "constant"};
  check_success(run(train_copying(folder / "first", Arguments{"--steps", "1"} + often)));
  const fs::path out = folder / "run", last = out / "model.h5", best = out / "best.h5";
  for (const bool last_is_earlier : {true, false}) {
    CAPTURE(last_is_earlier);
    fs::remove_all(out);
    check_success(run(train_copying(out, {"--steps", "4", "--eval-every", "3", "--schedule", "constant"})));
    if (last_is_earlier) fs::copy_file(folder / "first/model.h5", last, fs::copy_options::overwrite_existing);
    damage_numbers(best);
    const Arguments resume = {"train", "--resume", "--steps", "6", "--out", out.string()};
    check_refused(run(resume), 1,
                  {best.string(), "Rename '" + best.string() + "' to go on " +
                                      (last_is_earlier ? "from '" + last.string() : "without it")});
    damage_numbers(last);
    const ProgramResult both = run(resume);
    check_refused(both, 1, {best.string(), "'" + last.string() + "' is refused too: ", "another --out"});
    CHECK_THAT(both.errors, !contains("Rename"));
    // The way is no way with model.h5 alone either.
    fs::rename(best, folder / "renamed.h5");
    const ProgramResult alone = run(resume);
    check_refused(alone, 1, {last.string(), "it is damaged"});
    CHECK_THAT(alone.errors, !contains("Rename"));
  }
}

TEST_CASE("a model that another program has locked is not said to be removed", "[cli][resume]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, {"--steps", "2", "--eval-every", "1", "--schedule", "constant"})));
  const Arguments resume = {"train", "--resume", "--steps", "3", "--out", out.string()};
  for (const char* name : {"model.h5", "best.h5"}) {
    CAPTURE(name);
    const std::string file = out / name, before = content(file);
    const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC);
    REQUIRE(flock(descriptor, LOCK_EX) == 0);
    const ProgramResult result = run(resume);
    close(descriptor);
    check_refused(result, 1, {file, "open for writing elsewhere", "Rename '" + file + "'"});
    CHECK_THAT(result.errors, !contains("emove"));
    CHECK((content(file) == before));
  }
  check_success(run(resume));
}
