// orthornn bench translate: rows, run directories, and tables that go on.

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>

#include "cli/model_content.hpp"
#include "cli/run_program.hpp"
#include "support/sentence_pairs.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

/// What a table and a training of the same model have in common.
Arguments settings(const TemporaryFolder& folder) {
  const fs::path data = write_text(folder / "pairs.txt", number_pairs(100));
  return {"--data", data.string(), "--hidden", "8",         "--embedding-size",
          "6",      "--batch",     "16",       "--dropout", "0.1"};
}

Arguments table(const TemporaryFolder& folder, const Arguments& more) {
  return Arguments{"bench", "translate", "--beam", "2"} + settings(folder) + more;
}

Json content_of(const fs::path& file) { return Json::parse(content(file)); }

/// Its only line on standard error may be the progress of a slow machine.
void check_done(const ProgramResult& result) {
  CAPTURE(result.errors);
  CHECK(result.exit_code == 0);
}

std::vector<std::string> runs_in(const Json& result) {
  std::vector<std::string> names;
  for (const Json& row : result.at("rows")) names.push_back(row.at("run"));
  return names;
}

}  // namespace

TEST_CASE("a row of the table is what train and eval give", "[cli][bench][translate]") {
  const TemporaryFolder folder;
  const fs::path json = folder / "table.json", out = folder / "runs";
  const ProgramResult result =
      run(table(folder, {"--cells", "cwy,lstm,expm", "--reflections", "N,N/4,2,0", "--epochs", "0.5",
                         "--lr-orth", "3e-4", "--out", out.string(), "--json", json.string()}));
  check_done(result);
  const Json found = content_of(json);
  CHECK(runs_in(found) == std::vector<std::string>{"cwy-8-seed1", "cwy-2-seed1", "lstm-seed1", "expm-seed1"});
  CHECK(found.at("summary").empty());

  // With the option that an LSTM does not have, and without.
  const std::pair<const char*, Arguments> trainings[] = {
      {"cwy-2-seed1", {"--cell", "cwy", "--reflections", "2", "--lr-orth", "3e-4"}},
      {"lstm-seed1", {"--cell", "lstm"}}};
  for (const auto& [name, options] : trainings) {
    CAPTURE(name);
    const fs::path alone = folder / name;
    check_success(run(Arguments{"train", "translate", "--epochs", "0.5", "--out", alone.string()} +
                      settings(folder) + options));
    for (const char* file : {"config.toml", "model.h5", "best.h5", "sentences.tsv"})
      CHECK((content(out / name / file) == content(alone / file)));
    const Json& row = *std::ranges::find_if(
        found.at("rows"), [&, &run = name](const Json& other) { return other.at("run") == run; });
    const ProgramResult evaluated =
        run({"eval", (alone / "best.h5").string(), "--data", folder / "pairs.txt", "--beam", "2", "--json"});
    check_success(evaluated);
    Json expected = Json::parse(evaluated.output);
    expected.erase("model");
    CHECK(row.at("test") == expected);
    CHECK(row.at("parameters") ==
          Json::parse(run({"inspect", (alone / "best.h5").string(), "--json"}).output).at("parameter_count"));
    CHECK(row.at("settings").at("embedding-size") == 6);
    CHECK(row.at("epochs") == 0.5);
    CHECK(row.at("seconds") > 0);
    CHECK(row.at("seconds_per_epoch") > 0);
    CHECK_THAT(result.output, contains(fmt::format("{:.4f}", expected.at("cross_entropy").get<double>())));
  }
  const ProgramResult list = run({"runs", out.string(), "--json"});
  check_success(list);
  const Json listed = Json::parse(list.output);
  REQUIRE(listed.size() == 4);
  for (const Json& run : listed) {
    CAPTURE(run.dump());
    const auto row = std::ranges::find_if(
        found.at("rows"), [&](const Json& other) { return other.at("run") == run.at("name"); });
    REQUIRE(row != found.at("rows").end());
    CHECK(run.at("state") == "finished");
    CHECK(run.at("steps") == run.at("wanted_steps"));
    CHECK(run.at("test_loss") == row->at("test").at("cross_entropy"));
    CHECK(run.at("parameters") == row->at("parameters"));
  }
  const auto one_run = [&] {
    return Json::parse(run({"runs", (out / "lstm-seed1").string(), "--json"}).output)[0];
  };
  // A training that goes on is not finished by the row of its former end.
  const std::string config = content(out / "lstm-seed1/config.toml");
  const std::size_t place = config.find("steps = ");
  REQUIRE(place != std::string::npos);
  write_text(out / "lstm-seed1/config.toml", std::string(config).insert(place + 8, "9"));
  CHECK(one_run().at("state") == "interrupted");
  write_text(out / "lstm-seed1/config.toml", config);
  write_text(out / "lstm-seed1/result.json", "{\"parameters\": 3}");
  CHECK_THAT(one_run().at("notes").dump(), contains("result.json"));
  CHECK(one_run().at("state") == "interrupted");
  // Five lines of explanation, the head and a line for each training.
  CHECK(lines(result.output) == 5 + 1 + 4);
}

TEST_CASE("a table whose JSON cannot be written goes on to its end", "[cli][bench][translate]") {
  const TemporaryFolder folder;
  const fs::path json = folder / "table.json";
  const fs::path blocking = block_writes(json);
  const Arguments command = table(folder, {"--cells", "gru,lstm", "--steps", "1", "--out",
                                           (folder / "runs").string(), "--json", json.string()});
  const ProgramResult result = run(command);
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.output, contains("\ngru "));
  CHECK_THAT(result.output, contains("\nlstm "));
  CHECK_THAT(result.errors, contains("not written: '" + json.string() + "'; cannot write"));
  fs::remove(blocking);
  check_done(run(command));
  CHECK(runs_in(content_of(json)) == std::vector<std::string>{"gru-seed1", "lstm-seed1"});
}

TEST_CASE("several seeds have a mean and a deviation", "[cli][bench][translate]") {
  const TemporaryFolder folder;
  const fs::path json = folder / "table.json";
  // Nothing is kept without --out, and nothing is left among the temporary files.
  const fs::path scratch = folder / "tmp";
  fs::create_directory(scratch);
  const ProgramResult result =
      run(table(folder, {"--cells", "gru", "--seeds", "1,2,1", "--steps", "2", "--json", json.string()}),
          {.variables = {{"TMPDIR", scratch.string()}}, .folder = scratch});
  check_done(result);
  CHECK(fs::is_empty(scratch));
  const Json found = content_of(json);
  CHECK(runs_in(found) == std::vector<std::string>{"gru-seed1", "gru-seed2"});
  const double first = found.at("rows").at(0).at("test").at("cross_entropy");
  const double second = found.at("rows").at(1).at("test").at("cross_entropy");
  REQUIRE(first != second);
  const Json& summary = found.at("summary").at(0);
  CHECK(summary.at("seeds") == 2);
  CHECK(summary.at("mean").at("test").at("cross_entropy") == Approx((first + second) / 2));
  CHECK(summary.at("deviation").at("test").at("cross_entropy") ==
        Approx(std::abs(first - second) / std::sqrt(2.0)));
  CHECK_THAT(result.output, contains(" mean ") && contains(" sd "));
}

TEST_CASE("a training that diverges is a row, and the rest goes on", "[cli][bench][translate]") {
  const TemporaryFolder folder;
  const fs::path json = folder / "table.json", out = folder / "runs";
  // A rate that the gates do not have.
  const ProgramResult result =
      run(table(folder, {"--cells", "expm,lstm", "--lr-orth", "3e38", "--clip", "0", "--steps", "4",
                         "--schedule", "constant", "--out", out.string(), "--json", json.string()}));
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.errors, contains("1 of 2 trainings failed"));
  const Json found = content_of(json);
  CHECK(found.at("rows").at(0).at("state") == "failed");
  CHECK_THAT(found.at("rows").at(0).at("error").get<std::string>(), contains("diverged"));
  CHECK(found.at("rows").at(1).at("state") == "done");
  CHECK_THAT(result.output, contains("expm") && contains("diverged"));
}

TEST_CASE("a table goes on where it was interrupted, with the same bits",
          "[cli][bench][translate][signal][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "runs", whole = folder / "whole", json = folder / "table.json";
  const Arguments options = {"--cells",     "cwy,lstm", "--reflections", "2",   "--steps",    "600",
                             "--log-every", "1",        "--eval-every",  "280", "--schedule", "cosine"};
  const auto with_out = [&](const fs::path& folder_of_runs) {
    return table(folder, options + Arguments{"--out", folder_of_runs.string(), "--json", json.string()});
  };
  Orthornn interrupted_table(with_out(out));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  const fs::path metrics = out / "lstm-seed1/metrics.csv";
  while (!fs::exists(metrics) || lines(content(metrics)) < 6) {
    REQUIRE(std::chrono::steady_clock::now() < deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  interrupted_table.send(SIGINT);
  const ProgramResult result = interrupted_table.wait();
  CHECK(result.exit_code == 130);
  CHECK_THAT(result.errors, contains("interrupted after 1 of 2 rows") && contains("same command"));
  CHECK(runs_in(content_of(json)) == std::vector<std::string>{"cwy-2-seed1"});
  const Json before = content_of(json).at("rows").at(0);
  const auto time = fs::last_write_time(out / "cwy-2-seed1/model.h5");
  REQUIRE(steps_in(out / "lstm-seed1/model.h5") < 600);

  check_done(run(with_out(out)));
  CHECK(content_of(json).at("rows").at(0) == before);
  CHECK(fs::last_write_time(out / "cwy-2-seed1/model.h5") == time);
  CHECK(steps_in(out / "lstm-seed1/model.h5") == 600);
  const Json after = content_of(json).at("rows").at(1);
  // Its metrics.csv lacks the time up to the interruption.
  CHECK(after.at("went_on") == true);
  CHECK_FALSE(after.contains("seconds"));
  check_done(run(with_out(whole)));
  CHECK((content(out / "lstm-seed1/model.h5") == content(whole / "lstm-seed1/model.h5")));
  CHECK(content_of(json).at("rows").at(1).at("test") == after.at("test"));

  // What a stranger's folder links to is not written.
  fs::rename(out / "cwy-2-seed1/result.json", folder / "elsewhere.json");
  fs::create_symlink(folder / "elsewhere.json", out / "cwy-2-seed1/result.json");
  check_refused(run(with_out(out)), 1, {"result.json", "link"});
  fs::remove(out / "cwy-2-seed1/result.json");

  // Trained, but not evaluated: by another search, with a damaged result, with one that lacks numbers.
  Json without_numbers = before;
  without_numbers["test"]["cross_entropy"] = "x";
  const std::vector<std::string> damaged = {"{\"test\": ", without_numbers.dump()};
  for (const std::string& text : damaged) {
    write_text(out / "cwy-2-seed1/result.json", text);
    check_done(run(with_out(out)));
    CHECK(content_of(json).at("rows").at(0).at("test") == before.at("test"));
  }
  for (const Arguments& more : {Arguments{"--beam", "1"}, {}}) {
    const Arguments again = with_out(out);
    check_done(run(more.empty()
                       ? again
                       : Arguments{"bench", "translate"} + more + Arguments(again.begin() + 4, again.end())));
    CHECK(fs::last_write_time(out / "cwy-2-seed1/model.h5") == time);
    CHECK(content_of(json).at("rows").at(0).at("test").at("beam") == (more.empty() ? 2 : 1));
  }
}

TEST_CASE("bench translate refuses what cannot be a table before it trains",
          "[cli][bench][translate][long]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "runs";
  const auto refused = [&](const Arguments& more, int exit_code, std::initializer_list<std::string> words) {
    CAPTURE(more);
    check_refused(run(table(folder, Arguments{"--steps", "1", "--out", out.string()} + more)), exit_code,
                  words);
  };
  refused({"--cells", "rnn"}, 2, {"--cells", "rnn", "cwy"});
  refused({"--cells", "cwy", "--reflections", "9"}, 2, {"--reflections 9", "--hidden 8"});
  refused({"--reflections", "many"}, 2, {"--reflections", "many", "N/2"});
  refused({"--cells", "lstm,gru", "--activation", "tanh"}, 2, {"--activation", "lstm,gru"});
  refused({"--cells", "cayley", "--form", "dense"}, 2, {"--form", "cayley"});
  refused({"--cells", "lstm,gru", "--reflections", "4"}, 2, {"--reflections", "lstm,gru"});
  refused({"--seeds", "-1"}, 2, {"--seeds"});
  refused({"--json", (folder / "none/table.json").string()}, 1, {"table.json"});
  for (const char* option : {"--cell", "--seed", "--resume", "--until-solved", "--delay"})
    refused({option}, 2, {option});
  check_refused(run({"bench", "translate", "--data", (folder / "absent").string()}), 1, {"absent"});
  CHECK_FALSE(fs::exists(out));

  write_text(folder / "file", "");
  check_refused(run(table(folder, {"--out", folder / "file"})), 1, {folder / "file", "a file"});
  const fs::path training = folder / "training";
  check_success(
      run(Arguments{"train", "translate", "--steps", "1", "--out", training.string()} + settings(folder)));
  check_refused(run(table(folder, {"--out", training.string()})), 1, {training.string(), "run directory"});

  check_done(run(table(folder, {"--cells", "lstm", "--steps", "1", "--out", out.string()})));
  refused({"--cells", "gru,lstm", "--lr", "0.5"}, 1,
          {(out / "lstm-seed1").string(), "lr 0.001", "0.5", "--out"});
  CHECK_FALSE(fs::exists(out / "gru-seed1"));
  refused({"--cells", "lstm", "--encoder", "gru"}, 1,
          {(out / "lstm-seed1").string(), "encoder none", "\"gru\"", "--out"});
  const fs::path mixed = folder / "mixed";
  check_done(run(table(folder, {"--cells", "lstm", "--encoder", "deltaproduct", "--heads", "2", "--steps",
                                "1", "--out", mixed.string()})));
  check_refused(run(table(folder, {"--cells", "lstm", "--steps", "1", "--out", mixed.string()})), 1,
                {(mixed / "lstm-seed1").string(), "encoder \"deltaproduct\"", "none"});
  refused({"--cells", "lstm", "--heads", "2"}, 2, {"--heads", "lstm"});
  write_text(out / "lstm-seed1/config.toml", "[");
  refused({"--cells", "lstm"}, 2, {"config.toml"});
  fs::remove(out / "lstm-seed1/config.toml");
  refused({"--cells", "lstm"}, 1, {(out / "lstm-seed1").string(), "config.toml"});
}

TEST_CASE("bench translate reads a text whose name is no UTF-8", "[cli][bench][translate]") {
  const TemporaryFolder folder;
  const fs::path data = write_text(folder / "pairs\xff.txt", number_pairs(100));
  check_done(run({"bench", "translate", "--cells", "gru", "--data", data.string(), "--hidden", "8",
                  "--embedding-size", "6", "--batch", "16", "--steps", "1", "--beam", "1"}));
}
