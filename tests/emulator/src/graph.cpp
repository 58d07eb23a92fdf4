#include <set>

#include "runtime.hpp"
#include "stream.hpp"

struct CUgraph_st {
  orthornn::emulator::Work work;
};

struct CUgraphExec_st {
  orthornn::emulator::Work work;
};

namespace orthornn::emulator {
namespace {

struct Graphs {
  std::set<cudaGraph_t> graphs;
  std::set<cudaGraphExec_t> executables;
};

/// Never destroyed, as others may destroy their graphs late.
Graphs& graphs() {
  static auto* instance = new Graphs;
  return *instance;
}

}  // namespace

cudaGraph_t make_graph(std::vector<std::function<void()>> work) {
  return *graphs()
              .graphs
              .insert(
                  new CUgraph_st{std::make_shared<const std::vector<std::function<void()>>>(std::move(work))})
              .first;
}

}  // namespace orthornn::emulator

using orthornn::emulator::graphs;
using orthornn::emulator::remember;
using orthornn::emulator::runtime_mutex;

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  const std::lock_guard lock(runtime_mutex());
  *executable = nullptr;
  if (!graphs().graphs.contains(graph)) return remember(cudaErrorInvalidValue);
  *executable = new CUgraphExec_st{graph->work};
  graphs().executables.insert(*executable);
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  const std::lock_guard lock(runtime_mutex());
  if (!graphs().executables.contains(executable)) return remember(cudaErrorInvalidValue);
  return remember(orthornn::emulator::enqueue(stream, [work = executable->work] {
    for (const auto& step : *work) step();
  }));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const std::lock_guard lock(runtime_mutex());
  if (graphs().executables.erase(executable) == 0) return remember(cudaErrorInvalidValue);
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const std::lock_guard lock(runtime_mutex());
  if (graphs().graphs.erase(graph) == 0) return remember(cudaErrorInvalidValue);
  delete graph;
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  const std::lock_guard lock(runtime_mutex());
  if (!graphs().graphs.contains(graph)) return remember(cudaErrorInvalidValue);
  if (nodes != nullptr) return remember(cudaErrorNotSupported);
  *count = graph->work->size();
  return cudaSuccess;
}
