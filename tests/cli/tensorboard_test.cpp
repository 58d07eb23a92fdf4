// train --tensorboard: the numbers of metrics.csv in event files.

#include <fstream>
#include <initializer_list>
#include <sstream>

#include "cli/run_program.hpp"
#include "support/event_file.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn::testing;

namespace {

/// In the order of their names.
std::vector<fs::path> event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().find("tfevents") != std::string::npos) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

/// The cells of metrics.csv by step and column.
std::map<long, std::map<std::string, std::string>> logged(const fs::path& folder) {
  std::ifstream stream(folder / "metrics.csv");
  const auto cells_of = [](const std::string& line) {
    std::vector<std::string> cells;
    std::istringstream text(line + ",");
    for (std::string cell; std::getline(text, cell, ',');) cells.push_back(cell);
    return cells;
  };
  std::string line;
  std::getline(stream, line);
  const std::vector<std::string> columns = cells_of(line);
  std::map<long, std::map<std::string, std::string>> rows;
  while (std::getline(stream, line)) {
    const std::vector<std::string> cells = cells_of(line);
    for (std::size_t i = 0; i < cells.size(); ++i) rows[std::stol(cells[0])][columns[i]] = cells[i];
  }
  return rows;
}

const std::pair<const char*, const char*> tags[] = {{"train/loss", "loss"},
                                                    {"train/gradient_norm", "gradient_norm"},
                                                    {"train/learning_rate", "learning_rate"},
                                                    {"train/orthogonality_error", "orthogonality_error"},
                                                    {"train/reflection_norm", "reflection_norm"},
                                                    {"validation/loss", "evaluation_loss"},
                                                    {"validation/accuracy", "accuracy"}};

/// Compares the scalars of a file with the rows of metrics.csv; returns how many rows it has.
long check_scalars(const std::vector<ReadEvent>& events, const fs::path& folder) {
  const auto rows = logged(folder);
  long count = 0;
  for (const ReadEvent& event : events) {
    if (event.scalars.empty()) continue;
    ++count;
    CAPTURE(event.step);
    REQUIRE(rows.count(event.step) == 1);
    std::size_t found = 0;
    for (const auto& [tag, column] : tags) {
      CAPTURE(tag);
      const std::string cell = rows.at(event.step).at(column);
      REQUIRE(event.scalars.count(tag) == (cell.empty() ? 0 : 1));
      if (cell.empty()) continue;
      ++found;
      // Four digits of the orthogonality error, six of shares.
      CHECK(event.scalars.at(tag) == Approx(std::stod(cell)).epsilon(1e-3).margin(1e-6));
    }
    CHECK(event.scalars.size() == found);
  }
  return count;
}

const Arguments every_step = {"--tensorboard", "--log-every", "1", "--eval-every", "2",
                              "--schedule",    "constant"};

}  // namespace

TEST_CASE("a training writes its numbers for TensorBoard", "[cli][tensorboard]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, every_step + Arguments{"--steps", "5"})));
  const std::vector<fs::path> files = event_files(out);
  REQUIRE(files.size() == 1);
  const std::vector<ReadEvent> events = read_events(content(files[0]));
  REQUIRE(events.size() == 7);
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[1].is_start);
  CHECK(check_scalars(events, out) == 5);
  for (std::size_t i = 1; i < events.size(); ++i) CHECK(events[i].time >= events[i - 1].time);

  // A training that goes on adds a file, which says from where on the other does not count.
  check_success(run({"train", "--resume", "--out", out.string(), "--steps", "8"}));
  REQUIRE(event_files(out).size() == 2);
  CHECK(content(event_files(out)[0]) == content(files[0]));
  const std::vector<ReadEvent> more = read_events(content(event_files(out)[1]));
  REQUIRE(more.size() == 5);
  CHECK(more[1].is_start);
  CHECK(more[1].step == 6);
  CHECK(check_scalars(more, out) == 3);
  CHECK_FALSE(fs::exists(folder / "plain"));

  check_success(run(train_copying(folder / "plain", {"--steps", "2"})));
  CHECK(event_files(folder / "plain").empty());
}

TEST_CASE("a training that begins anew removes the event files of the one before, and no others",
          "[cli][tensorboard]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(train_copying(out, every_step + Arguments{"--steps", "2"})));
  REQUIRE(event_files(out).size() == 1);
  const fs::path foreign = out / "events.out.tfevents.1.host";
  write_text(foreign, "another's");
  fs::remove(out / "model.h5");
  fs::remove(out / "best.h5");
  check_success(run(train_copying(out, every_step + Arguments{"--steps", "3"})));
  REQUIRE(event_files(out).size() == 2);
  CHECK(event_files(out)[0] == foreign);
  CHECK(check_scalars(read_events(content(event_files(out)[1])), out) == 3);
}

TEST_CASE("an event file that cannot be written is written later", "[cli][tensorboard][save]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  Orthornn training(train_copying(out, every_step + Arguments{"--steps", "1000000"}));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  const auto wait_until = [&](const auto& holds) {
    while (!holds()) {
      REQUIRE(std::chrono::steady_clock::now() < deadline);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  };
  wait_until([&] { return training.catches(SIGHUP) && !event_files(out).empty(); });
  const fs::path file = event_files(out).at(0);
  fs::remove(file);
  wait_until([&] { return fs::exists(file) && fs::file_size(file) > 1000; });
  training.send(SIGINT);
  CHECK(training.wait().exit_code == 130);
  CHECK(check_scalars(read_events(content(file)), out) > 0);
}
