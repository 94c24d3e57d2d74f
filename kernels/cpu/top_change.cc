#include <optional>

#include "kernels/cpu/change_selection.h"
#include "kernels/cpu/selection_cpu.h"
#include "kernels/encoding.h"

namespace asyncmesh::kernels {

size_t cpu_top_change_workspace(uint64_t elements, uint64_t k) {
  return SelectionPlan(elements, k).bytes;
}

void cpu_top_change(const Change& change, uint64_t k, Threshold* threshold, uint32_t* indices,
                    void* workspace, const Execution& on) {
  if (k == 0) {
    *threshold = {};
    return;
  }
  ChangeSelection selection(change, k, workspace, on.workers);
  // A guess that was wrong last time is not tried again at once.
  const bool trusted = threshold->passes <= 1;
  const auto guess = trusted ? selection.guessed_bracket(threshold->score) : std::nullopt;
  if (!(guess && selection.collect(*guess)) && !selection.collect(selection.sampled_bracket())) {
    selection.collect(selection.exact_bracket());
  }
  threshold->score = float_of(static_cast<uint32_t>(selection.finish(indices)));
  threshold->passes = selection.passes();
}

}  // namespace asyncmesh::kernels
