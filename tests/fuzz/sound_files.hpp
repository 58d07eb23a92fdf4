#pragma once
// Small models as `orthornn train` and `save_model` write them, and inputs of predict, for the targets that
// edit them.

#include <memory>
#include <vector>

#include "fuzz/hdf5_edits.hpp"
#include "orthornn/nn/sequence_model.hpp"
#include "orthornn/train/trainer.hpp"

namespace orthornn::fuzz {

/// A training of a few parameters.
struct SmallTraining {
  std::unique_ptr<Task> task;
  std::unique_ptr<SequenceModel<float>> model;
  std::unique_ptr<Trainer> trainer;
  /// Its checkpoint.
  SoundFile file;
};

/// One of each task, with different cells, readouts and optimizers.
std::vector<SmallTraining> small_trainings();
/// Of those trainings, and a model with embedding and stacked cells; each also in the oldest format.
std::vector<SoundFile> model_files();
/// Inputs of predict, floats [5, 2, 1] and then symbols [5, 2], with lengths; each also in the oldest format.
std::vector<SoundFile> input_files();

}  // namespace orthornn::fuzz
