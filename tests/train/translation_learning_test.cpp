#include <initializer_list>

#include "orthornn/train/translator.hpp"
#include "support/catch.hpp"
#include "support/sentence_pairs.hpp"
#include "support/temporary_folder.hpp"
#include "support/text_file.hpp"

using namespace orthornn;
using namespace orthornn::testing;

// Nine tenths of the numbers below 10,000 are learned, and 1000 others are translated. Measured over seeds 1
// to 6: 971 to 993 of them are right after 1000 steps, 995 to 1000 after 2000, and 997 to 999 after 3000.
//
// Not of the numbers below 1000: too many of those that are held out there have no other number like them.
// A 7 alone or a 13 is a tenth of its kind, and 96 to 100 of 100 were right after 1000 steps.
TEST_CASE("a small model learns to say numbers that it has not seen, from three seeds", "[train][slow]") {
  const std::uint64_t seed = GENERATE(1, 2, 3);
  constexpr std::int64_t steps = 3000;
  const TemporaryFolder folder;
  write_text(folder / "numbers.txt", number_pairs(10'000));
  const TranslationTask task({.data = folder.path(), .batch = 32, .seed = seed});
  const OrthogonalCell cell{.hidden_size = 64};
  EncoderDecoder<float> model(Device::cpu(),
                              {.source_symbols = task.source_tokenizer().size(),
                               .target_symbols = task.target_tokenizer().size(),
                               .embedding_size = 32,
                               .encoder = {cell},
                               .decoder = {cell}},
                              seed);
  Trainer trainer(model, task,
                  {.optimizer = Adam{.lr = 3e-3, .lr_orthogonal = 3e-4},
                   .schedule = {.kind = Schedule::Kind::cosine, .total_steps = steps}});
  trainer.run(steps, [](const TrainingStep&) { return true; });
  Translator translator(model, task);
  int exact = 0, all = 0;
  for (const HeldOut set : {HeldOut::validation, HeldOut::test}) {
    std::vector<std::string> sentences;
    for (const SentencePair& pair : task.held_out_pairs(set)) sentences.push_back(pair.source);
    const std::span<const SentencePair> expected = task.held_out_pairs(set);
    const auto found = translator.translate(sentences, {.beam = 1});
    for (std::size_t i = 0; i < sentences.size(); ++i) {
      exact += found[i].at(0).text == expected[i].target;
      ++all;
    }
  }
  CAPTURE(seed, exact);
  REQUIRE(all == 1000);
  CHECK(exact >= 990);
}
