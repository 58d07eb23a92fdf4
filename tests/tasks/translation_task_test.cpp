#include "orthornn/tasks/translation_task.hpp"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "orthornn/core/error.hpp"
#include "orthornn/text/normalization.hpp"
#include "orthornn/train/recipe.hpp"
#include "support/catch.hpp"
#include "support/check_says.hpp"
#include "support/sentence_pairs.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"

using namespace orthornn;
using namespace orthornn::testing;

namespace {

using Tokens = std::vector<std::int32_t>;
using TokenPair = std::pair<Tokens, Tokens>;

/// Two hundred numbers, ten of which have a second translation.
std::string some_pairs() {
  std::string text = number_pairs(200);
  for (int number = 20; number < 30; ++number)
    text += number_pairs(number + 1).substr(number_pairs(number).size(), 4) + "this is " +
            number_words(number) + "\n";
  return text;
}

/// The pairs of a batch as tokens without begin and end, after a look at every number in it.
std::vector<TokenPair> pairs_of(const Batch& batch) {
  const auto source = batch.integers(batch_names::source), target = batch.integers(batch_names::target),
             classes = batch.integers(batch_names::classes),
             source_lengths = batch.integers(batch_names::source_lengths),
             target_lengths = batch.integers(batch_names::target_lengths);
  REQUIRE(source.shape().rank() == 2);
  const Index count = source.shape()[1];
  REQUIRE(target.shape() == classes.shape());
  REQUIRE(target.shape()[1] == count);
  REQUIRE(source_lengths.shape() == Shape{count});
  REQUIRE(target_lengths.shape() == Shape{count});
  std::vector<TokenPair> pairs(static_cast<std::size_t>(count));
  Index longest_source = 0, longest_target = 0;
  for (Index b = 0; b < count; ++b) {
    auto& [read, answer] = pairs[static_cast<std::size_t>(b)];
    const Index read_steps = source_lengths(b), answer_steps = target_lengths(b);
    longest_source = std::max(longest_source, read_steps);
    longest_target = std::max(longest_target, answer_steps);
    for (Index s = 0; s < source.shape()[0]; ++s) {
      if (s < read_steps - 1) read.push_back(source(s, b));
      if (s == read_steps - 1) CHECK(source(s, b) == token_ids::end);
      if (s >= read_steps) CHECK(source(s, b) == token_ids::padding);
    }
    CHECK(target(0, b) == token_ids::begin);
    for (Index t = 0; t < target.shape()[0]; ++t) {
      if (t < answer_steps - 1) {
        answer.push_back(classes(t, b));
        CHECK(target(t + 1, b) == classes(t, b));
      }
      if (t == answer_steps - 1) CHECK(classes(t, b) == token_ids::end);
      if (t >= answer_steps) {
        CHECK(classes(t, b) == -1);
        CHECK((target(t, b) == token_ids::end || target(t, b) == token_ids::padding));
      }
    }
    for (const Tokens* tokens : {&read, &answer}) {
      for (const std::int32_t token : *tokens)
        CHECK((token == token_ids::unknown || token >= token_ids::first_of_text));
    }
  }
  // No step is padding alone.
  CHECK(longest_source == source.shape()[0]);
  CHECK(longest_target == target.shape()[0]);
  return pairs;
}

std::vector<TokenPair> epoch_of(const TranslationTask& task, std::uint64_t number) {
  const auto batches = static_cast<std::uint64_t>(*task.batches_per_epoch());
  std::vector<TokenPair> pairs;
  for (std::uint64_t step = number * batches; step < (number + 1) * batches; ++step) {
    Batch batch;
    task.training_batch(step, batch);
    const auto found = pairs_of(batch);
    pairs.insert(pairs.end(), found.begin(), found.end());
  }
  return pairs;
}

std::vector<TokenPair> held_out_tokens(const TranslationTask& task, HeldOut set) {
  std::vector<TokenPair> pairs;
  for (Index number = 0; number < task.evaluation_batches(set); ++number) {
    Batch batch;
    task.evaluation_batch(set, number, batch);
    const auto found = pairs_of(batch);
    pairs.insert(pairs.end(), found.begin(), found.end());
  }
  return pairs;
}

std::vector<TokenPair> sorted(std::vector<TokenPair> pairs) {
  std::ranges::sort(pairs);
  return pairs;
}

bool same_batch(const TranslationTask& a, const TranslationTask& b, std::uint64_t step) {
  Batch first, second;
  a.training_batch(step, first);
  b.training_batch(step, second);
  return std::ranges::all_of(
      std::initializer_list<std::string_view>{batch_names::source, batch_names::target, batch_names::classes,
                                              batch_names::source_lengths, batch_names::target_lengths},
      [&](std::string_view name) {
        const Tensor<std::int32_t>&x = first.integers(name), &y = second.integers(name);
        return x.shape() == y.shape() && std::ranges::equal(x, y);
      });
}

std::vector<std::string> first_columns(const TranslationTask& task, HeldOut set) {
  std::vector<std::string> sentences;
  for (const SentencePair& pair : task.held_out_pairs(set)) sentences.push_back(pair.source);
  return sentences;
}

struct Text {
  explicit Text(const std::string& text = some_pairs()) { write_text(folder / "pairs.txt", text); }
  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("A translation batch has sentences with their ends, and what was answered before each step",
          "[translation]") {
  const Text text("Go.\tVe.\nGo away now!\tVete ya.\nI see.\tYa veo.\nWho?\t\xC2\xBFQui\xC3\xA9n?\n");
  const TranslationTask task({.data = text.folder.path(), .batch = 2});
  Batch batch;
  task.training_batch(0, batch);
  // Two of the four sentences are held out.
  REQUIRE(*task.batches_per_epoch() == 1);
  REQUIRE(pairs_of(batch).size() == 2);
  std::set<std::string> answers;
  for (const auto& [source, target] : pairs_of(batch)) {
    const std::string sentence = task.source_tokenizer().decode(source);
    const std::string answer = task.target_tokenizer().decode(target);
    CHECK((std::map<std::string, std::string>{{"go.", "ve."},
                                              {"go away now!", "vete ya."},
                                              {"i see.", "ya veo."},
                                              {"who?", "\xC2\xBFqui\xC3\xA9n?"}}[sentence] == answer));
  }
  CHECK(batch.reals(batch_names::features).empty());
  CHECK(task.metrics().empty());
}

TEST_CASE("An epoch of translation has every training pair once, in an order of its own", "[translation]") {
  const Text text;
  const TranslationTask task({.data = text.folder.path(), .batch = 16, .seed = 3});
  const std::vector<TokenPair> first = epoch_of(task, 0), second = epoch_of(task, 1);
  // 200 distinct sentences, 10 of them for validation and 10 for the test.
  const Index held_out =
      std::ssize(task.held_out_pairs(HeldOut::validation)) + std::ssize(task.held_out_pairs(HeldOut::test));
  CHECK(std::ssize(first) == 210 - held_out);
  CHECK((first != second));
  CHECK((sorted(first) == sorted(second)));
  // All that is in the text and not held out. The words of held-out pairs alone are unknown.
  std::vector<TokenPair> expected;
  std::set<std::string> held_out_sources;
  for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
    for (const SentencePair& pair : task.held_out_pairs(set)) held_out_sources.insert(pair.source);
  }
  CHECK(held_out_sources.size() == 20);
  for (const SentencePair& pair : read_parallel_text(text.folder.path()).pairs) {
    if (!held_out_sources.contains(pair.source)) {
      expected.emplace_back(task.source_tokenizer().encode(pair.source),
                            task.target_tokenizer().encode(pair.target));
    }
  }
  CHECK((sorted(first) == sorted(expected)));
}

TEST_CASE("Translation batches depend on seed and step alone", "[translation]") {
  const Text text;
  const TranslationOptions options{.data = text.folder.path(), .batch = 16, .seed = 3};
  const TranslationTask task(options), other(options);
  TranslationOptions of_seed = options;
  of_seed.seed = 4;
  // Back and forth over the end of an epoch.
  for (const std::uint64_t step : {0, 30, 5, 12, 11, 30}) {
    const TranslationTask fresh(options);
    CHECK(same_batch(task, fresh, step));
    CHECK(same_batch(task, other, 30 - step));
  }
  CHECK_FALSE(same_batch(task, TranslationTask(of_seed), 0));
  CHECK((first_columns(task, HeldOut::test) != first_columns(TranslationTask(of_seed), HeldOut::test)));
}

TEST_CASE("A translation batch is refilled without a trace of a larger one", "[translation]") {
  const Text text;
  const TranslationTask task({.data = text.folder.path(), .batch = 16, .seed = 3});
  Batch reused;
  for (std::uint64_t step = 0; step < 12; ++step) {
    Batch fresh;
    task.training_batch(step, reused);
    task.training_batch(step, fresh);
    CHECK((pairs_of(reused) == pairs_of(fresh)));
  }
}

TEST_CASE("No first-column sentence of the training set is held out, in either direction", "[translation]") {
  const Text text;
  const Direction direction = GENERATE(Direction::first_to_second, Direction::second_to_first);
  const std::uint64_t seed = GENERATE(1, 2, 3);
  const bool reverse = direction == Direction::second_to_first;
  const TranslationTask task({.data = text.folder.path(), .direction = direction, .batch = 16, .seed = seed});
  const Tokenizer& tokenizer = reverse ? task.target_tokenizer() : task.source_tokenizer();
  std::set<Tokens> trained;
  for (const auto& [source, target] : epoch_of(task, 0)) trained.insert(reverse ? target : source);
  std::set<std::string> seen;
  for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
    std::set<std::string> here;
    for (const SentencePair& pair : task.held_out_pairs(set)) {
      const std::string& first = reverse ? pair.target : pair.source;
      CHECK_FALSE(trained.contains(tokenizer.encode(first)));
      CHECK_FALSE(seen.contains(first));
      here.insert(first);
    }
    seen.insert(here.begin(), here.end());
    // What is evaluated is what `held_out_pairs` says.
    std::vector<TokenPair> expected;
    for (const SentencePair& pair : task.held_out_pairs(set))
      expected.emplace_back(task.source_tokenizer().encode(pair.source),
                            task.target_tokenizer().encode(pair.target));
    CHECK((sorted(held_out_tokens(task, set)) == sorted(expected)));
  }
}

TEST_CASE("Both directions of translation have one split", "[translation]") {
  const Text text;
  const Index pairs = GENERATE(0, 100);
  const TranslationOptions options{.data = text.folder.path(), .pairs = pairs, .batch = 16, .seed = 5};
  TranslationOptions back = options;
  back.direction = Direction::second_to_first;
  const TranslationTask there(options), again(back);
  for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
    std::vector<SentencePair> reversed;
    for (const SentencePair& pair : again.held_out_pairs(set)) reversed.push_back({pair.target, pair.source});
    CHECK(std::ranges::equal(there.held_out_pairs(set), reversed));
  }
}

TEST_CASE("Options of translation choose pairs, lengths and tokens", "[translation]") {
  const Text text;
  const auto made = [&](TranslationOptions options) {
    options.data = text.folder.path();
    options.batch = 16;
    return TranslationTask(options);
  };
  SECTION("pairs") {
    const TranslationTask task = made({.pairs = 50});
    const Index held_out =
        std::ssize(task.held_out_pairs(HeldOut::validation)) + std::ssize(task.held_out_pairs(HeldOut::test));
    CHECK(std::ssize(epoch_of(task, 0)) + held_out == 50);
    // More than there are: all of them.
    CHECK(*made({.pairs = 211}).batches_per_epoch() == *made({}).batches_per_epoch());
    // Of the whole text, not of its beginning: the first 50 have one or two digits.
    std::size_t longest = 0;
    for (const auto& [source, target] : epoch_of(task, 0)) longest = std::max(longest, source.size());
    CHECK(longest == 3);
  }
  SECTION("longest") {
    const TranslationTask task = made({.longest = 3});
    for (const auto& [source, target] : epoch_of(task, 0)) CHECK(std::max(source.size(), target.size()) <= 3);
    CHECK(task.length() <= 4);
    // Four words have 121 to 199 beyond the tens and teens, 72 of them, and "this is twenty one" to nine.
    CHECK(task.left_out() == "81 pairs were left out: more than 3 tokens on a side");
    CHECK(made({}).left_out() == "");
    CHECK(made({.pairs = 210}).left_out() == "");
    CHECK(made({.pairs = 211}).left_out() == "--pairs 211: there are 210 pairs, and all are used");
    write_text(text.folder / "pairs.txt", some_pairs() + "no tab\n");
    const std::string left_out = made({.longest = 3}).left_out();
    CHECK_THAT(left_out, contains("no tab (first: line 211)") && contains("; 81 pairs"));
  }
  SECTION("vocabulary") {
    const TranslationTask task = made({.vocabulary = 7});
    CHECK(task.source_tokenizer().size() == 7);
    CHECK(task.target_tokenizer().size() == 7);
    CHECK(made({}).source_tokenizer().size() == 14);
  }
  SECTION("sentencepiece") {
    const TranslationTask task = made({.tokenizer = TokenizerKind::sentencepiece, .vocabulary = 40});
    CHECK(task.target_tokenizer().kind() == "sentencepiece");
    CHECK(task.target_tokenizer().size() <= 40);
    for (const auto& [source, target] : epoch_of(task, 0))
      CHECK_FALSE(task.target_tokenizer().decode(target).empty());
  }
}

TEST_CASE("Capital letters and accents of a translation are kept or removed", "[translation]") {
  std::string lines;
  for (int i = 0; i < 30; ++i)
    lines += "Caf\xC3\xA9 number " + number_words(i) + "\tEl caf\xC3\xA9 " + number_words(i) + "\n";
  const Text text(lines);
  const auto first_word = [&](bool keep_case, bool strip_accents) {
    const TranslationTask task(
        {.data = text.folder.path(), .keep_case = keep_case, .strip_accents = strip_accents, .batch = 4});
    CHECK(task.normalization().lower_case == !keep_case);
    const auto words = [&](const Tokenizer& tokenizer, const Tokens& tokens, std::size_t word) {
      return std::string(tokenizer.text_of(tokens[word]));
    };
    const TokenPair pair = epoch_of(task, 0)[0];
    return words(task.source_tokenizer(), pair.first, 0) + " " +
           words(task.target_tokenizer(), pair.second, 0) + " " +
           words(task.target_tokenizer(), pair.second, 1);
  };
  CHECK(first_word(false, false) == "caf\xC3\xA9 el caf\xC3\xA9");
  CHECK(first_word(true, false) == "Caf\xC3\xA9 El caf\xC3\xA9");
  CHECK(first_word(false, true) == "cafe el cafe");
  CHECK(first_word(true, true) == "Cafe El cafe");
}

TEST_CASE("The translation baseline is the entropy of the training answers' tokens", "[translation]") {
  const Text text;
  const TranslationTask task({.data = text.folder.path(), .batch = 16});
  std::map<std::int32_t, double> counts;
  double all = 0;
  for (const auto& [source, target] : epoch_of(task, 0)) {
    for (const std::int32_t token : target) ++counts[token];
    ++counts[token_ids::end];
    all += static_cast<double>(target.size()) + 1;
  }
  double entropy = 0;
  for (const auto& [token, count] : counts) entropy += count / all * std::log(all / count);
  // Sums of some thirty terms in another order.
  CHECK(task.baseline_loss() == Approx(entropy).epsilon(1e-13));
  CHECK(task.solved({.loss = 0.009}));
  CHECK_FALSE(task.solved({.loss = std::nan("")}));
}

TEST_CASE("A translation task comes back from its config and its parts, without its data", "[translation]") {
  const TokenizerKind kind = GENERATE(TokenizerKind::word, TokenizerKind::sentencepiece);
  const Text text;
  const TranslationTask task({.data = text.folder.path(),
                              .direction = Direction::second_to_first,
                              .pairs = 150,
                              .tokenizer = kind,
                              .vocabulary = 40,
                              .keep_case = true,
                              .strip_accents = true,
                              .longest = 20,
                              .batch = 16,
                              .seed = 3});
  const std::vector<TaskPart> parts = task.parts();
  REQUIRE(parts.size() == 3);
  const auto made = make_task(task.config(), {.batch = 16, .seed = 3, .parts = parts});
  const auto& rebuilt = dynamic_cast<const TranslationTask&>(*made);
  CHECK(rebuilt.config() == task.config());
  CHECK((rebuilt.parts() == parts));
  for (const char* sentence : {"one hundred twenty one", "1 2 1", "Unheard of", ""}) {
    CHECK(rebuilt.source_tokenizer().encode(sentence) == task.source_tokenizer().encode(sentence));
    CHECK(rebuilt.target_tokenizer().encode(sentence) == task.target_tokenizer().encode(sentence));
  }
  CHECK_THROWS_AS(rebuilt.load(), FileError);
  // Another text would have other test sentences.
  const TemporaryFolder elsewhere;
  const auto other_text = elsewhere / "other.txt";
  write_text(other_text, number_pairs(151));
  const auto other = make_task(task.config(), {.batch = 16, .seed = 3, .data = other_text, .parts = parts});
  check_says<FileError>([&] { other->load(); }, {other_text.string(), "another text", "150 pairs, CRC-32"});
  // With the data it has the batches as well, of the vocabulary that it was given.
  const auto whole =
      make_task(task.config(), {.batch = 16, .seed = 3, .data = text.folder.path(), .parts = parts});
  CHECK(same_batch(dynamic_cast<const TranslationTask&>(*whole), task, 4));
}

TEST_CASE("The recipe of a translation has ten epochs of the pairs that train", "[translation]") {
  const Text text;
  for (const Index pairs : {0, 100}) {
    const TranslationTask task({.data = text.folder.path(), .pairs = pairs, .batch = 16});
    // A twentieth of the sentences each is held out: some 190 pairs, or 90, train.
    CHECK(*task.batches_per_epoch() == (pairs == 0 ? 12 : 6));
    const Recipe recipe = recipe_for(task, {OrthogonalCell{}});
    CHECK(recipe.steps == 10 * *task.batches_per_epoch());
    CHECK(recipe.evaluation_steps == *task.batches_per_epoch());
  }
}

TEST_CASE("The parts of a translation task are the bytes that it was given", "[translation]") {
  const Text text;
  std::vector<TaskPart> parts = TranslationTask({.data = text.folder.path(), .batch = 16}).parts();
  // The same options in another order of JSON.
  std::string& bytes = parts.at(0).bytes;
  const std::string lower = R"("lower_case":true)", accents = R"("strip_accents":false)";
  const std::size_t at = bytes.find(lower + "," + accents);
  REQUIRE(at != std::string::npos);
  bytes.replace(at, lower.size() + accents.size() + 1, accents + "," + lower);
  const TranslationTask task({.data = text.folder.path(), .batch = 16, .parts = parts});
  CHECK((task.parts() == parts));
  task.load();
  CHECK((task.parts() == parts));
}

TEST_CASE("Parts that do not belong to a translation task are refused", "[translation]") {
  const Text text;
  const TranslationTask task({.data = text.folder.path(), .batch = 16});
  const std::vector<TaskPart> parts = task.parts();
  const auto with = [](const std::vector<TaskPart>& given, TranslationOptions options = {}) {
    options.parts = given;
    TranslationTask{options};
  };
  CHECK_NOTHROW(with(parts));
  check_says<ValueError>([&] { with({parts[0]}); }, {"no part", "target_tokenizer"});
  check_says<ValueError>([&] { with({parts[1]}); }, {"no part", "source_tokenizer"});
  check_says<ValueError>(
      [&] {
        with({parts[0], {parts[1].name, "no tokenizer"}});
      },
      {"target_tokenizer", "no tokenizer"});
  check_says<ValueError>([&] { with({{parts[0].name, ""}, parts[1]}); }, {"source_tokenizer"});
  TaskPart truncated = parts[1];
  truncated.bytes.resize(truncated.bytes.size() - 1);
  check_says<ValueError>([&] { with({parts[0], truncated}); }, {"target_tokenizer", "truncated"});
  check_says<ValueError>([&] { with(parts, {.tokenizer = TokenizerKind::sentencepiece}); }, {"other tokens"});
  check_says<ValueError>([&] { with({parts[0], parts[1]}); }, {"no part", "'data'"});
  check_says<ValueError>([&] { with({parts[0], parts[1], {"data", "\x1b"}}); }, {"'data'", "printable"});
  check_says<ValueError>(
      [&] {
        with({parts[0], parts[1], {"data", std::string(101, 'x')}});
      },
      {"'data'", "101"});
  check_says<ValueError>([&] { with(parts, {.keep_case = true}); }, {"case"});
  check_says<ValueError>([&] { with(parts, {.strip_accents = true}); }, {"accents"});
}

TEST_CASE("A translation task without usable data says what is missing", "[translation]") {
  const TemporaryFolder folder;
  const auto load = [](const TranslationOptions& options) { TranslationTask(options).load(); };
  check_says<FileError>([&] { load({}); }, {"translate", "tatoeba"});
  check_says<FileError>([&] { TranslationTask().source_tokenizer(); }, {"translate"});
  const auto absent = folder / "absent";
  check_says<FileError>([&] { load({.data = absent}); },
                        {absent.string(), "tools/fetch-data tatoeba", "--data"});
  check_says<FileError>([&] { load({.data = folder.path()}); }, {folder.path().string()});
  const auto file = write_text(folder / "pairs.txt", "");
  check_says<FileError>([&] { load({.data = file}); }, {file.string(), "empty"});
  write_text(file, number_pairs(100));
  check_says<ValueError>([&] { load({.data = file, .longest = 1}); },
                         {file.string(), "1 tokens", "--longest"});
  check_says<ValueError>([&] { load({.data = file, .pairs = 2}); },
                         {file.string(), "2 of 100 pairs", "--pairs", "2 distinct sentences"});
  write_text(file, number_pairs(2));
  check_says<ValueError>([&] { load({.data = file}); }, {file.string(), "2 of 2 pairs"});
  check_says<ValueError>([&] { load({.longest = 0}); }, {"longest"});
  check_says<ValueError>([&] { load({.vocabulary = 4}); }, {"vocabulary", "5"});
  check_says<ValueError>([&] { load({.vocabulary = -1}); }, {"vocabulary"});
  check_says<ValueError>([&] { load({.batch = 0}); }, {"batch"});
  check_says<ValueError>([&] { load({.pairs = -1}); }, {"pairs"});
  // A call that failed leaves nothing half read.
  write_text(file, "");
  const TranslationTask task({.data = file, .batch = 16});
  CHECK_THROWS_AS(task.load(), FileError);
  write_text(file, number_pairs(100));
  CHECK(*task.batches_per_epoch() == 6);
  CHECK_THROWS_AS(
      [&] {
        Batch batch;
        task.evaluation_batch(HeldOut::test, task.evaluation_batches(HeldOut::test), batch);
      }(),
      ValueError);
}
