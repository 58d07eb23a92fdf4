#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/run_program.hpp"
#include "cli/train_numbers.hpp"
#include "orthornn/train/model_file.hpp"
#include "support/hdf5_edit.hpp"
#include "support/sentence_pairs.hpp"
#include "support/text_file.hpp"

namespace fs = std::filesystem;
using namespace orthornn;
using namespace orthornn::testing;
using Json = nlohmann::json;

namespace {

/// A run directory "run" with a model that has been trained for three steps.
struct Trained {
  Trained() { check_success(run(train_numbers(folder, folder / "run", {"--steps", "3"}))); }

  ProgramResult translate(const std::string& input, const Arguments& more = {}) const {
    write_text(folder / "input.txt", input);
    return run(Arguments{"translate", model} + more, {.input = folder / "input.txt"});
  }

  TemporaryFolder folder;
  std::string model = folder / "run/model.h5";
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) found.push_back(line);
  return found;
}

/// Both means of what `eval` printed, against the model's loss of each batch of the test data.
void check_cross_entropies(const Json& evaluation, const std::string& file, const std::string& data) {
  ModelFileInfo info;
  const auto model = load_any_model(file, {}, &info);
  const auto task = make_task(info.task_config, {.batch = info.batch, .seed = info.seed, .data = data});
  BatchLoss all{};
  double with_padding = 0;
  Batch batch;
  const Index batches = task->evaluation_batches(HeldOut::test);
  for (Index number = 0; number < batches; ++number) {
    task->evaluation_batch(HeldOut::test, number, batch);
    const BatchLoss loss = model->loss(batch);
    all.sum += loss.sum;
    all.count += loss.count;
    with_padding += loss.sum / static_cast<double>(batch.integers(batch_names::classes).size());
  }
  with_padding /= static_cast<double>(batches);
  // The same sums.
  CHECK(evaluation.at("cross_entropy") == Approx(all.mean()).epsilon(1e-14));
  CHECK(evaluation.at("cross_entropy_with_padding") == Approx(with_padding).epsilon(1e-14));
  CHECK(evaluation.at("perplexity_with_padding") < evaluation.at("perplexity"));
}

std::vector<std::string> columns_of(const std::string& line) {
  std::vector<std::string> found;
  std::istringstream stream(line + "\t");
  for (std::string column; std::getline(stream, column, '\t');) found.push_back(column);
  return found;
}

}  // namespace

TEST_CASE("a translation is trained, resumed with the same bits, inspected and evaluated",
          "[cli][translate][long]") {
  const TemporaryFolder folder;
  const Arguments every = {"--log-every", "1", "--eval-every", "4", "--schedule", "constant"};
  const Arguments options = {"--tied",     "--bidirectional", "--dropout", "0.1",       "--label-smoothing",
                             "0.1",        "--layers",        "2",         "--longest", "7",
                             "--keep-case"};
  const fs::path whole = folder / "whole", parts = folder / "parts";
  // Six batches are an epoch.
  check_success(run(train_numbers(folder, whole, options + every + Arguments{"--steps", "8"})));
  check_success(run(train_numbers(folder, parts, options + every + Arguments{"--steps", "4"})));
  check_success(run({"train", "--resume", "--steps", "8", "--out", parts.string()}));
  // Settings leave an empty name out.
  check_refused(run({"train", "--resume", "--steps", "9", "--encoder", "gru", "--out", parts.string()}), 2,
                {"--encoder gru was given", "has none"});
  CHECK((content(parts / "model.h5") == content(whole / "model.h5")));

  const std::string model = whole / "model.h5";
  const ModelFileInfo info = read_model_info(model);
  const auto& made = std::get<EncoderDecoderOptions>(info.model);
  CHECK(made.tied);
  CHECK(made.dropout == 0.1);
  CHECK(made.label_smoothing == 0.1);
  CHECK(made.embedding_size == 6);
  CHECK(made.source_symbols == 14);
  CHECK(made.decoder.size() == 2);
  CHECK(std::get<Bidirectional>(made.encoder.at(0)).layers.size() == 2);
  CHECK(info.steps == 8);
  CHECK_THAT(info.task_config, contains(R"("longest":7)") && contains(R"("keep_case":true)"));

  const ProgramResult text = run({"inspect", model});
  check_success(text);
  CHECK_THAT(text.output, contains("translate") && contains("target_embedding/vectors") &&
                              contains("bidirectional") && contains("8 steps"));
  const ProgramResult inspected = run({"inspect", model, "--json"});
  check_success(inspected);
  const Json description = Json::parse(inspected.output);
  CHECK(description.at("config").at("model").at("kind") == "encoder_decoder");
  CHECK(description.at("parameters").at("target_embedding/vectors").at(1) == 6);

  const std::string data = folder / "pairs.txt";
  const ProgramResult evaluated = run({"eval", model, "--data", data, "--json"});
  check_success(evaluated);
  const Json evaluation = Json::parse(evaluated.output);
  CHECK(evaluation.at("task") == "translate");
  CHECK(evaluation.at("cross_entropy") > 0);
  // The entropy of about thirty words.
  CHECK((evaluation.at("baseline") > 1 && evaluation.at("baseline") < 3.4));
  check_cross_entropies(evaluation, model, data);
  check_refused(run({"eval", model, "--data", (folder / "absent").string()}), 1, {"absent"});
}

TEST_CASE("an encoder of DeltaProduct blocks is trained, resumed with the same bits and used",
          "[cli][translate][delta][long]") {
  const TemporaryFolder folder;
  const bool both_ways = GENERATE(false, true);
  CAPTURE(both_ways);
  Arguments options = {"--cell",       "gru", "--encoder",   "deltaproduct",
                       "--heads",      "2",   "--key-size",  "4",
                       "--value-size", "3",   "--log-every", "1",
                       "--eval-every", "4",   "--schedule",  "constant"};
  if (both_ways) options.push_back("--bidirectional");
  const fs::path whole = folder / "whole", parts = folder / "parts";
  const ProgramResult trained = run(train_numbers(folder, whole, options + Arguments{"--steps", "4"}));
  check_success(trained);
  CHECK_THAT(trained.output, contains("translate with gru, encoder deltaproduct:"));
  check_success(run(train_numbers(folder, parts, options + Arguments{"--steps", "2"})));
  check_success(run({"train", "--resume", "--steps", "4", "--out", parts.string()}));
  CHECK((content(parts / "model.h5") == content(whole / "model.h5")));

  const std::string model = whole / "model.h5", data = folder / "pairs.txt";
  const auto made = std::get<EncoderDecoderOptions>(read_model_info(model).model);
  CHECK(std::get<Gru>(made.decoder.at(0)).hidden_size == 8);
  const auto& encoder = both_ways ? std::get<Bidirectional>(made.encoder.at(0)).layers : made.encoder;
  REQUIRE(encoder.size() == 4);
  CHECK(std::get<Linear>(encoder[0]).outputs == 8);  // embeddings have 6 numbers
  CHECK(std::get<DeltaProductCell>(std::get<Residual>(encoder[1]).layers.at(1)).heads == 2);
  CHECK(std::holds_alternative<GatedMlp>(std::get<Residual>(encoder[2]).layers.at(1)));

  const ProgramResult inspected = run({"inspect", model});
  check_success(inspected);
  CHECK_THAT(inspected.output, contains("deltaproduct") && contains("gru"));
  check_success(run({"eval", model, "--data", data, "--json"}));
  // A sentence beside longer ones, and alone.
  const auto translate = [&](const std::string& input) {
    write_text(folder / "input.txt", input);
    return run({"translate", model}, {.input = folder / "input.txt"});
  };
  const ProgramResult all = translate("1 2\n4 2 1 9 9 9 9 9\n\n7\n"), alone = translate("7\n");
  check_success(all);
  CHECK(lines(all.output) == 4);
  CHECK(all.output.ends_with("\n" + alone.output));
  const fs::path page = folder / "page.html";
  check_success(run({"report", whole.string(), "--out", page.string()}));
  CHECK_THAT(content(page), contains("gru, encoder deltaproduct"));
}

TEST_CASE("an encoder is one of the cells, and its options are those of its cell", "[cli][translate]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  const auto refused = [&](const Arguments& more, std::initializer_list<std::string> words) {
    check_refused(run(train_numbers(folder, out, Arguments{"--steps", "1"} + more)), 2, words);
  };
  refused({"--encoder", "rnn"}, {"--encoder", "rnn", "deltaproduct"});
  refused({"--encoder", "lstm", "--cell", "gru", "--heads", "2"},
          {"--heads", "deltaproduct", "gru and lstm"});
  refused({"--encoder", "cwy", "--cell", "gru", "--reflections", "9"}, {"--reflections 9", "--hidden 8"});
  check_refused(run({"train", "copying", "--encoder", "gru", "--steps", "1", "--out", out.string()}), 2,
                {"--encoder", "translate", "copying"});
  // Each has the options of its own cell, and its own kind of layers.
  check_success(run(train_numbers(
      folder, out, {"--steps", "1", "--encoder", "householder", "--reflections", "3", "--cell", "lstm"})));
  const auto made = std::get<EncoderDecoderOptions>(read_model_info(out / "model.h5").model);
  CHECK(*reflections_of(made.encoder.at(0)) == 3);
  CHECK(std::holds_alternative<Lstm>(made.decoder.at(0)));
  // What a file says of the encoder holds for another cell too, and without it both are one.
  CHECK_THAT(content(out / "config.toml"), contains("encoder = \"householder\""));
  const fs::path both = folder / "both";
  check_success(run(train_numbers(folder, both, {"--steps", "1", "--cell", "lstm"})));
  CHECK_THAT(content(both / "config.toml"), !contains("encoder ="));
  const auto alike = std::get<EncoderDecoderOptions>(read_model_info(both / "model.h5").model);
  CHECK(std::holds_alternative<Lstm>(alike.encoder.at(0)));
}

TEST_CASE("a training of a translation is made again from its config.toml", "[cli][translate]") {
  const TemporaryFolder folder;
  const fs::path first = folder / "first", second = folder / "second";
  check_success(run(train_numbers(folder, first,
                                  {"--steps", "2", "--tied", "--direction", "es-en", "--cell", "lstm",
                                   "--tokenizer", "sentencepiece", "--vocabulary", "30", "--pairs", "80"})));
  const ProgramResult again =
      run({"train", "--config", (first / "config.toml").string(), "--out", second.string()});
  CHECK(again.exit_code == 0);
  CHECK((content(first / "model.h5") == content(second / "model.h5")));
}

TEST_CASE("eval and --resume of a translation read the text of the training, wherever they are started",
          "[cli][translate][eval][resume]") {
  const TemporaryFolder folder;
  const RunSettings there{.folder = folder.path()}, elsewhere{.folder = folder / "elsewhere"};
  fs::create_directories(elsewhere.folder);
  fs::create_directories(folder / "data/tatoeba");
  write_text(folder / "pairs.txt", number_pairs(100));
  write_text(folder / "data/tatoeba/pairs.txt", number_pairs(100));
  for (const Arguments& data : {Arguments{"--data", "pairs.txt"}, Arguments{}}) {
    CAPTURE(data);
    const std::string out = folder / (data.empty() ? "usual" : "given");
    check_success(run(Arguments{"train", "translate", "--hidden", "8", "--embedding-size", "6", "--batch",
                                "16", "--steps", "1", "--out", out} +
                          data,
                      there));
    check_success(run({"eval", out + "/model.h5", "--beam", "1"}, elsewhere));
    check_success(run({"train", "--resume", "--steps", "2", "--out", out}, elsewhere));
  }
}

TEST_CASE("a resumed translation has the vocabularies of its model file", "[cli][translate]") {
  const TemporaryFolder folder;
  const fs::path out = folder / "run";
  check_success(run(train_numbers(folder, out, {"--steps", "3", "--eval-every", "9"})));
  // Two words change places, as in a vocabulary that was made of the text in another way.
  const std::string model = out / "model.h5";
  std::string bytes;
  for (const TaskPart& part : read_model_info(model).parts) {
    if (part.name == "target_tokenizer") bytes = part.bytes;
  }
  const std::size_t at = bytes.find("\ntwo\n");
  REQUIRE(at != std::string::npos);
  const std::size_t next = bytes.find('\n', at + 5);
  REQUIRE(next != std::string::npos);
  const std::string other = bytes.substr(at + 5, next - at - 5);
  bytes.replace(at, next - at, "\n" + other + "\ntwo");
  Hdf5Edit(model).dataset("task/target_tokenizer", H5T_NATIVE_UINT8, {bytes.size()}, H5P_DEFAULT,
                          bytes.data());
  fs::remove(out / "best.h5");  // of the same step, with the other vocabulary
  check_success(run({"train", "--resume", "--steps", "4", "--out", out.string()}));
  const ModelFileInfo info = read_model_info(model);
  CHECK(info.steps == 4);
  CHECK(info.parts.at(1).bytes == bytes);
  // The text must be the same.
  write_text(folder / "pairs.txt", number_pairs(99));
  check_refused(run({"train", "--resume", "--steps", "5", "--out", out.string()}), 1,
                {"pairs.txt", "another text", "100 pairs", "99 pairs"});
  write_text(folder / "pairs.txt", number_pairs(100));
  check_refused(run({"train", "--resume", "--steps", "5", "--seed", "2", "--out", out.string()}), 2,
                {"--seed"});
  check_refused(run({"train", "--resume", "--steps", "5", "--keep-case", "--out", out.string()}), 2,
                {"--keep-case"});
}

TEST_CASE("a translation is trained for ten epochs, and says how many pairs it has", "[cli][translate]") {
  const TemporaryFolder folder;
  const ProgramResult result = run(train_numbers(folder, folder / "run", {"--pairs", "200"}));
  CHECK(result.exit_code == 0);
  // Ninety pairs train, in six batches.
  CHECK_THAT(result.output, contains("60 steps") && contains("step 60/60"));
  CHECK(result.errors == "orthornn: --pairs 200: there are 100 pairs, and all are used\n");
  check_refused(run(train_numbers(folder, folder / "few", {"--pairs", "2"})), 2,
                {"2 of 100 pairs", "--pairs"});
}

TEST_CASE("lines of standard input are translated in their order", "[cli][translate]") {
  const Trained trained;
  const ProgramResult together = trained.translate("4 2\n\n1 7\r\n \t\n9 unheard 9");
  check_success(together);
  const std::vector<std::string> found = lines_of(together.output);
  REQUIRE(found.size() == 5);
  CHECK(together.output.back() == '\n');
  CHECK(found[1] == "");
  CHECK(found[3] == "");
  const char* const sentences[] = {"4 2\n", "\n", "1 7\n", "\n", "9 unheard 9\n"};
  for (std::size_t i = 0; i < 5; ++i) {
    const ProgramResult alone = trained.translate(sentences[i]);
    check_success(alone);
    CHECK(alone.output == found[i] + "\n");
  }
  const ProgramResult in_pieces = trained.translate("4 2\n\n1 7\r\n \t\n9 unheard 9", {"--batch", "1"});
  CHECK(in_pieces.output == together.output);
  // Nothing to translate is no mistake.
  const ProgramResult nothing = trained.translate("");
  check_success(nothing);
  CHECK(nothing.output == "");
}

TEST_CASE("more lines than are read at once keep their order", "[cli][translate]") {
  const Trained trained;
  std::string input;
  for (int i = 0; i < 40; ++i) input += std::to_string(i % 7) + "\n";
  const ProgramResult result = trained.translate(input, {"--batch", "1", "--beam", "2", "--n-best", "2"});
  check_success(result);
  const std::vector<std::string> found = lines_of(result.output);
  REQUIRE(found.size() == 80);
  for (std::size_t i = 0; i < 80; ++i) {
    const std::vector<std::string> columns = columns_of(found[i]);
    REQUIRE(columns.size() == 3);
    CHECK(columns[0] == std::to_string(i / 2 + 1));
    if (i >= 14) CHECK(columns[2] == columns_of(found[i - 14])[2]);
  }
}

TEST_CASE("a line that cannot be translated is named, and the others are translated", "[cli][translate]") {
  const Trained trained;
  std::string long_line;
  for (int i = 0; i < 1001; ++i) long_line += "1 ";
  const std::string input = "4 2\n\xFF\xFE\n1 7\n" + long_line + "\n5";
  const ProgramResult result = trained.translate(input);
  CHECK(result.exit_code == 1);
  const std::vector<std::string> found = lines_of(result.output), errors = lines_of(result.errors);
  REQUIRE(found.size() == 5);
  CHECK(found[0] == lines_of(trained.translate("4 2\n").output).at(0));
  CHECK(found[1] == "");
  CHECK(found[2] == lines_of(trained.translate("1 7\n").output).at(0));
  CHECK(found[3] == "");
  CHECK(found[4] == lines_of(trained.translate("5\n").output).at(0));
  REQUIRE(errors.size() == 3);
  CHECK_THAT(errors[0], contains("orthornn: line 2: ") && contains("UTF-8"));
  CHECK_THAT(errors[1], contains("orthornn: line 4: ") && contains("1001 tokens"));
  CHECK_THAT(errors[2], contains("2 of 5 lines"));

  const ProgramResult nul = trained.translate(std::string("4 \0 2\n5\n", 8));
  CHECK(nul.exit_code == 1);
  CHECK(lines_of(nul.output) == std::vector<std::string>{"", found[4]});
  CHECK_THAT(nul.errors, contains("line 1: a NUL byte"));

  // A line beyond the buffer of the reader does not become two lines.
  const ProgramResult wide = trained.translate(std::string(200'000, 'x') + "\n5\n");
  CHECK(wide.exit_code == 1);
  CHECK(lines_of(wide.output) == std::vector<std::string>{"", found[4]});
  CHECK_THAT(wide.errors, contains("line 1: more than 65536 bytes") && contains("1 of 2 lines"));

  // The number of a line counts on where lines are read in parts: 4 at once.
  const ProgramResult late = trained.translate(std::string(40, '\n') + "\xFF\n", {"--batch", "1"});
  CHECK(late.exit_code == 1);
  CHECK_THAT(late.errors, contains("line 41: ") && contains("1 of 41 lines"));
}

TEST_CASE("several translations of a line have its number and their scores", "[cli][translate]") {
  const Trained trained;
  const ProgramResult result = trained.translate("4 2\n\n7\n", {"--beam", "4", "--n-best", "3"});
  check_success(result);
  const std::vector<std::string> found = lines_of(result.output);
  // A blank line has one translation.
  REQUIRE(found.size() == 7);
  const char* const numbers[] = {"1", "1", "1", "2", "3", "3", "3"};
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<std::string> columns = columns_of(found[i]);
    REQUIRE(columns.size() == 3);
    CHECK(columns[0] == numbers[i]);
    if (i == 3) CHECK(columns[2] == "");
    if (i > 0 && columns[0] == numbers[i - 1])
      CHECK(std::stod(columns[1]) <= std::stod(columns_of(found[i - 1])[1]));
  }
  const ProgramResult best = trained.translate("4 2\n\n7\n", {"--beam", "4"});
  CHECK(lines_of(best.output).at(2) == columns_of(found[4]).at(2));
  check_refused(trained.translate("4\n", {"--beam", "2", "--n-best", "3"}), 2, {"--n-best 3", "--beam 2"});
  check_refused(trained.translate("4\n", {"--beam", "0"}), 2, {"--beam"});
  check_refused(trained.translate("4\n", {"--n-best", "0"}), 2, {"--n-best"});
  check_refused(trained.translate("4\n", {"--length-penalty", "-1"}), 2, {"--length-penalty"});
  // All scores would be 0.
  check_refused(trained.translate("4\n", {"--length-penalty", "1e308"}), 2, {"--length-penalty", "10"});
  check_refused(trained.translate("4\n", {"--beam", "2", "--beam", "3"}), 2,
                {"--beam was given more than once"});
}

TEST_CASE("translations as JSON are one object a line", "[cli][translate]") {
  const Trained trained;
  const std::string input = "4 2\n\n\"\\ unheard\n\xFF\n";
  const ProgramResult result = trained.translate(input, {"--json", "--n-best", "2"});
  CHECK(result.exit_code == 1);
  const std::vector<std::string> found = lines_of(result.output);
  REQUIRE(found.size() == 4);
  std::vector<Json> objects;
  for (const std::string& line : found) objects.push_back(Json::parse(line));
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(objects[i].at("line") == i + 1);
    CHECK(objects[i].contains("error") == (i == 3));
  }
  CHECK(objects[0].at("translations").size() == 2);
  CHECK_THAT(objects[3].at("error").get<std::string>(), contains("UTF-8"));
  const Json first = objects[0].at("translations").at(0);
  CHECK(first.at("text") == lines_of(trained.translate("4 2\n").output).at(0));
  CHECK(first.at("score").get<double>() >= objects[0].at("translations").at(1).at("score").get<double>());
  CHECK(first.at("log_probability").get<double>() <= first.at("score").get<double>());
}

TEST_CASE("a model that does not translate is refused", "[cli][translate]") {
  const Trained trained;
  const TemporaryFolder& folder = trained.folder;
  check_success(run(train_copying(folder / "copying", {"--steps", "1"})));
  const std::string copying = folder / "copying/model.h5";
  check_refused(run({"translate", copying}), 1, {copying, "one sequence", "an encoder and a decoder"});
  check_refused(run({"predict", trained.model, copying, "-o", (folder / "out.h5").string()}), 1,
                {trained.model, "an encoder and a decoder, for translate", "one sequence"});
  const std::string absent = folder / "absent.h5";
  check_refused(run({"translate", absent}), 1, {absent});
  check_refused(run({"translate"}), 2, {"model"});
  const std::string alone = folder / "alone.h5";
  save_model(alone, *load_any_model(trained.model));
  check_refused(run({"translate", alone}), 1, {alone, "vocabularies"});
  // Vocabularies of another size than the model's.
  const std::string other = folder / "other.h5";
  fs::copy_file(trained.model, other);
  const std::string bytes =
      "orthornn tokenizer 1\n"
      R"({"tokens":{"kind":"word","vocabulary":30000},"normalization":{"lower_case":true,"strip_accents":false}})"
      "\none\ntwo\n";
  Hdf5Edit(other).dataset("task/target_tokenizer", H5T_NATIVE_UINT8, {bytes.size()}, H5P_DEFAULT,
                          bytes.data());
  check_refused(run({"translate", other}), 1, {"symbols", "tokenizers have 14 and 6"});
}

TEST_CASE("eval refuses options that the task of a model does not have", "[cli][translate]") {
  const TemporaryFolder folder;
  check_success(run(train_copying(folder / "copying", {"--steps", "1"})));
  for (const Arguments& option : {Arguments{"--beam", "3"},
                                  {"--length-penalty", "0.5"},
                                  {"--sample", "2"},
                                  {"--data", folder.path().string()}}) {
    CAPTURE(option[0]);
    check_refused(run(Arguments{"eval", folder / "copying/model.h5"} + option), 2,
                  {option[0], "translate", "copying"});
  }
}

TEST_CASE("options of a translation are its own", "[cli][translate]") {
  const TemporaryFolder folder;
  const std::string out = folder / "run";
  for (const Arguments& option : {Arguments{"--tied"},
                                  {"--bidirectional"},
                                  {"--dropout", "0.1"},
                                  {"--embedding-size", "4"},
                                  {"--label-smoothing", "0.1"},
                                  {"--direction", "es-en"},
                                  {"--vocabulary", "30"}}) {
    CAPTURE(option[0]);
    check_refused(run(train_copying(out, option)), 2, {option[0], "translate"});
  }
  write_text(folder / "config.toml", "[[layer]]\nkind = \"lstm\"\n");
  check_refused(run({"train", "translate", "--data", write_text(folder / "pairs.txt", number_pairs(100)),
                     "--config", (folder / "config.toml").string(), "--out", out}),
                2, {"[[layer]]", "translate"});
  check_refused(run({"train", "translate", "--data", (folder / "absent").string(), "--out", out}), 1,
                {"absent"});
  check_refused(run(train_numbers(folder, out, {"--direction", "en-de"})), 2, {"--direction", "en-de"});
  check_refused(run(train_numbers(folder, out, {"--vocabulary", "4"})), 2, {"vocabulary", "5"});
  check_refused(run(train_numbers(folder, out, {"--longest", "1", "--steps", "1"})), 2, {"1 tokens"});
  CHECK_FALSE(fs::exists(fs::path(out) / "model.h5"));
}
