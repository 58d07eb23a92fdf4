// Generation step by step: a network learns a song letter by letter. It then reads the first line in one
// forward and sings on, one letter a step, with the states carried. The training loop is the program's own.
#include <algorithm>
#include <iostream>
#include <orthornn/orthornn.hpp>
#include <string>
using namespace orthornn;

const std::string song =
    "Row, row, row your boat, gently down the stream.\n"
    "Merrily, merrily, merrily, merrily, life is but a dream.\n";

/// One sequence: the codes of letters, [T, 1], and the letter that follows each.
Batch batch_of(const std::string& text) {
  Batch batch;
  for (const std::string_view name : {batch_names::symbols, batch_names::classes})
    batch.integers(name).resize({std::ssize(text) - 1, 1});
  std::copy(text.begin(), text.end() - 1, batch.integers(batch_names::symbols).begin());
  std::copy(text.begin() + 1, text.end(), batch.integers(batch_names::classes).begin());
  return batch;
}

int main() {
  SequenceModel<float> model(
      Device::cpu(),
      {.input = OneHot{128}, .cells = {OrthogonalCell{.hidden_size = 96}}, .readout = EveryStep{128}});
  const auto optimizer = make_optimizer<float>(Adam{.lr = 5e-3}, model.parameters());
  const Batch lesson = batch_of(song);
  Tensor<double> scale({2});  // the norm of the gradient, and the factor by which the update multiplies it
  for (int step = 1; step <= 200; ++step) {
    const BatchLoss loss = model.loss_and_gradient(lesson);
    gradient_scale<float>(model.parameters().gradients(), model.last_loss(), /*max_norm=*/1, scale);
    optimizer->step(model.parameters(), {.gradient_scale = scale.view().slice(1, 1)});
    if (step % 50 == 0) std::cout << "step " << step << "  loss " << loss.mean() << "\n";
  }

  std::string sung = song.substr(0, song.find('M'));
  std::cout << "\n" << sung;
  SequenceModel<float>::Generator generator(model, /*batch=*/1);
  model.forward(batch_of(sung));
  model.final_state(generator.state());
  Tensor<std::int32_t> letter({1});
  while (sung.size() < song.size()) {
    letter(0) = sung.back();
    const TensorView<const float> scores = generator.step(letter);
    sung += static_cast<char>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    std::cout << sung.back();
  }
  return sung == song ? 0 : 1;
}
