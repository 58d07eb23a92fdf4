#include "products/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/back_end.hpp"
#include "cuda/core/device.hpp"
#include "cuda/products/few_over_grid.hpp"
#include "cuda/products/grid_plan.hpp"
#include "cuda/products/large_clusters.hpp"
#include "cuda/products/on_chip.hpp"
#include "orthornn/core/error.hpp"

namespace orthornn {
namespace {

constexpr const char* dense = "dense";
constexpr const char* float_alone = "it computes in float alone";
constexpr const char* no_clusters =
    "this GPU, or part of a GPU, runs no thread-block clusters as compute capability 9.0 has them";
constexpr const char* no_such_steps =
    "there are no steps or no sequences, more than 2^30 steps, or 2^31 numbers in a step";

/// The plans of a rollout over the grid, forward and backward, whose units have so many gates.
std::array<std::optional<cuda::GridPlan>, 2> plans_over_grid(Index n, Index batch, const Execution& execution,
                                                             int gates) {
  const cuda::GridProblem forward{.device = execution.device,
                                  .batch = batch,
                                  .hidden_size = n,
                                  .precision = execution.precision,
                                  .gates = gates};
  return {cuda::grid_plan(forward), cuda::grid_plan(transposed(forward))};
}

std::optional<std::string> obstacle_of_grid(Index n, Index length, Index batch, const Execution& execution,
                                            int gates) {
  if (!cuda::has_grid_kernels()) return "this build has no kernels over the grid";
  if (!cuda::fits_persistent_rollout(length, batch, n)) return no_such_steps;
  for (const auto& plan : plans_over_grid(n, batch, execution, gates)) {
    if (!plan) return fmt::format("the multiprocessors do not hold hidden size {}", n);
  }
  return std::nullopt;
}

/// The largest N for which the grid is taken. Both ways were timed up to these sizes. The estimates were
/// fitted to steps of less than 15 us. Where most of the matrix comes from the L2 cache, a step may take
/// twice the estimate.
constexpr Index largest_size_over_grid(Precision precision, int gates) {
  if (gates > 1) return precision == Precision::tf32 ? 512 : 1024;
  return precision == Precision::bf16 ? 4096 : 2112;
}

/// Microseconds of a step as the plans over the grid expect it, forward and backward; nullopt where they have
/// no estimate.
std::optional<double> planned_over_grid(Index n, Index batch, const Execution& execution, int gates) {
  if (n > largest_size_over_grid(execution.precision, gates)) return std::nullopt;
  double time = 0;
  for (const auto& plan : plans_over_grid(n, batch, execution, gates)) {
    if (!plan) return std::nullopt;
    time += plan->step_us;
  }
  return time;
}

/// The time of few sequences, where they take less than `planned`; nullopt elsewhere.
std::optional<double> few_over_grid(Index n, Index batch, const Execution& execution,
                                    const std::optional<double>& planned) {
  const auto time = cuda::few_over_grid_us(execution.device, batch, n);
  return time && planned && *planned <= *time ? std::nullopt : time;
}

/// Microseconds of a step over the grid, forward and backward; nullopt where that has no estimate, or where
/// steps one after another take less. Few sequences never do: those steps read all of Q.
std::optional<double> time_over_grid(Index n, Index batch, const Execution& execution, int gates) {
  const auto planned = planned_over_grid(n, batch, execution, gates);
  if (gates == 1) {
    if (const auto few = few_over_grid(n, batch, execution, planned)) return few;
  }
  return planned && *planned < 2 * stepwise_us(n, batch, gates, execution.precision) ? planned : std::nullopt;
}

/// Whether a cluster that holds N is one of those in large_clusters.hpp.
constexpr bool needs_large_cluster(Index n, const Execution& execution) {
  return n > cuda::largest_small_cluster_size(execution.precision);
}

/// Why a way does not take these sizes; nullopt where it does.
template <class T>
std::optional<std::string> obstacle(RolloutWay way, const std::string& form, Index n, Index length,
                                    Index batch, const Execution& execution) {
  if (way == RolloutWay::stepwise) return std::nullopt;
  if constexpr (!std::is_same_v<T, float>) return float_alone;
  if (form != dense) {
    return fmt::format("the transition is applied in its {} form, not as a matrix", form);
  }
  if (way != RolloutWay::resident && !cuda::has_clusters(execution.device)) {
    return no_clusters;
  }
  if (way == RolloutWay::grid) return obstacle_of_grid(n, length, batch, execution, 1);
  const Index largest =
      way == RolloutWay::resident ? cuda::largest_resident_size : cuda::largest_cluster_size;
  if (n > largest) return fmt::format("hidden size {} is above {}, the largest", n, largest);
  if (!cuda::fits_persistent_rollout(length, batch, n)) return no_such_steps;
  if (needs_large_cluster(n, execution) && !cuda::large_cluster_us(execution.device, batch, n))
    return fmt::format("this GPU, or part of a GPU, runs no clusters of the blocks that hidden size {} takes",
                       n);
  return std::nullopt;
}

/// Of the ways that keep Q on chip and take these sizes, the one that is expected to be fastest. Where one
/// multiprocessor holds Q, a step waits for no other. Large clusters are faster than the grid for few
/// sequences. Large products are faster step by step than over the grid.
template <class T>
std::optional<RolloutWay> way_on_chip(const std::string& form, Index n, Index length, Index batch,
                                      const Execution& execution) {
  const auto takes = [&](RolloutWay way) { return !obstacle<T>(way, form, n, length, batch, execution); };
  if (takes(RolloutWay::resident)) return RolloutWay::resident;
  const bool over_cluster = takes(RolloutWay::cluster);
  if (over_cluster && !needs_large_cluster(n, execution)) return RolloutWay::cluster;
  const std::optional<double> over_grid =
      takes(RolloutWay::grid) ? time_over_grid(n, batch, execution, 1) : std::nullopt;
  const double others = over_grid.value_or(2 * stepwise_us(n, batch, 1, execution.precision));
  if (over_cluster && cuda::large_cluster_us(execution.device, batch, n).value() < others)
    return RolloutWay::cluster;
  return over_grid ? std::optional(RolloutWay::grid) : std::nullopt;
}

/// The form where a way that keeps Q on chip takes these sizes; nullopt where the dense form too goes step by
/// step. One multiprocessor or a cluster is faster than factors step by step for every L, the grid is not.
std::optional<ReflectionForm> form_on_chip(Index n, Index reflections, Index batch,
                                           const Execution& execution) {
  const RolloutWay asked = execution.rollout;
  if (asked == RolloutWay::stepwise) return std::nullopt;
  if (asked != RolloutWay::automatic) {
    return obstacle<float>(asked, dense, n, 1, batch, execution) ? std::nullopt
                                                                 : std::optional(ReflectionForm::dense);
  }
  const std::optional<RolloutWay> way = way_on_chip<float>(dense, n, 1, batch, execution);
  if (!way) return std::nullopt;
  if (*way != RolloutWay::grid) return ReflectionForm::dense;
  const auto size = static_cast<double>(n), sequences = static_cast<double>(batch);
  const double factored =
      factored_step_us(size, static_cast<double>(reflections), sequences, execution.precision);
  const double over_grid = time_over_grid(n, batch, execution, 1).value();
  return over_grid + dense_gradient_us(size, sequences, execution.precision) < factored
             ? ReflectionForm::dense
             : ReflectionForm::factored;
}

}  // namespace

ReflectionForm fastest_form_on_cpu(double n, double l, double length, double batch, double lanes) {
  constexpr double columns_to_read_a_matrix = 2;
  constexpr double cost_in_tiles = 1.4;
  const double columns = length * batch;
  const double columns_of_products = length * (batch + columns_to_read_a_matrix);
  const double columns_of_tiles = length * lanes * std::ceil(batch / lanes);
  const double in_tiles = 8 * n * l;  // both directions; the gradient is products of all columns
  const std::pair<double, ReflectionForm> forms[] = {
      {dense_preparation(n, l) + dense_operations(n) * columns_of_products, ReflectionForm::dense},
      {factored_preparation(n, l) + factored_operations(n, l) * columns_of_products,
       ReflectionForm::factored},
      {sequential_preparation(n, l) + cost_in_tiles * in_tiles * columns_of_tiles +
           (factored_operations(n, l) - in_tiles) * columns,
       ReflectionForm::sequential}};
  return std::ranges::min(forms).second;
}

template <class T>
ReflectionForm fastest_form(Index hidden_size, Index reflections, const Execution& execution) {
  const auto n = static_cast<double>(hidden_size), l = static_cast<double>(reflections);
  const Index batch = std::max<Index>(1, execution.expected_batch);
  const Index length = std::max<Index>(1, execution.expected_length);
  if constexpr (has_cuda_bodies) {
    if (execution.device.is_cuda()) {
      double to_save = 0;
      if constexpr (std::is_same_v<T, float>) {
        if (const auto form = form_on_chip(hidden_size, reflections, batch, execution)) return *form;
        to_save = operations_to_save(execution.precision, static_cast<double>(batch));
      }
      return dense_is_cheaper(n, l, to_save) ? ReflectionForm::dense : ReflectionForm::factored;
    }
  }
  return fastest_form_on_cpu(n, l, static_cast<double>(length), static_cast<double>(batch),
                             static_cast<double>(tile_bytes / sizeof(T)));
}

template <class T>
RolloutWay planned_way(const std::string& form, Index hidden_size, Index length, Index batch,
                       const Execution& execution) {
  if constexpr (has_cuda_bodies) {
    const RolloutWay asked = execution.rollout;
    if (!execution.device.is_cuda()) return RolloutWay::stepwise;
    if (asked == RolloutWay::automatic) {
      return way_on_chip<T>(form, hidden_size, length, batch, execution).value_or(RolloutWay::stepwise);
    }
    if (const auto reason = obstacle<T>(asked, form, hidden_size, length, batch, execution)) {
      throw ValueError(fmt::format("the rollout cannot be {}: {}; use automatic", name_of(asked), *reason));
    }
    return asked;
  }
  return RolloutWay::stepwise;
}

bool goes_as_few_over_grid(Index hidden_size, Index batch, const Execution& execution) {
  if constexpr (has_cuda_bodies) {
    const auto planned = planned_over_grid(hidden_size, batch, execution, 1);
    return few_over_grid(hidden_size, batch, execution, planned).has_value();
  }
  return false;
}

template <class T>
RolloutWay planned_gated_way(const char* kind, int gates, Index hidden_size, Index length, Index batch,
                             const Execution& execution) {
  const RolloutWay asked = execution.rollout;
  if (asked == RolloutWay::resident || asked == RolloutWay::cluster) {
    throw ValueError(
        fmt::format("the rollout cannot be {}: {} goes over the grid or step by step; use automatic",
                    name_of(asked), kind));
  }
  if constexpr (has_cuda_bodies) {
    if (!execution.device.is_cuda() || asked == RolloutWay::stepwise) return RolloutWay::stepwise;
    std::optional<std::string> reason = float_alone;
    if constexpr (std::is_same_v<T, float>) {
      reason = cuda::has_clusters(execution.device)
                   ? obstacle_of_grid(hidden_size, length, batch, execution, gates)
                   : std::optional<std::string>(no_clusters);
    }
    if (asked == RolloutWay::grid && reason)
      throw ValueError(fmt::format("the rollout cannot be grid: {}; use automatic", *reason));
    if (!reason && (asked == RolloutWay::grid || time_over_grid(hidden_size, batch, execution, gates)))
      return RolloutWay::grid;
  }
  return RolloutWay::stepwise;
}

template ReflectionForm fastest_form<float>(Index, Index, const Execution&);
template ReflectionForm fastest_form<double>(Index, Index, const Execution&);
template RolloutWay planned_way<float>(const std::string&, Index, Index, Index, const Execution&);
template RolloutWay planned_way<double>(const std::string&, Index, Index, Index, const Execution&);
template RolloutWay planned_gated_way<float>(const char*, int, Index, Index, Index, const Execution&);
template RolloutWay planned_gated_way<double>(const char*, int, Index, Index, Index, const Execution&);

}  // namespace orthornn
