#include "core/optimiser_object.h"

namespace asyncmesh::core {

Result<std::unique_ptr<OptimiserObject>> OptimiserObject::create(std::shared_ptr<Region> weights,
                                                                 std::shared_ptr<Region> gradients,
                                                                 const NadamwConfig& config) {
  ASYNCMESH_RETURN_IF_ERROR(weights->need_table("weights"));
  ASYNCMESH_RETURN_IF_ERROR(weights->need_mirror(*gradients, "gradients"));
  std::unique_ptr<OptimiserObject> object(
      new OptimiserObject(std::move(weights), std::move(gradients)));
  auto nadamw = Nadamw::create(config, object->weights_->table(), object->gradients_->table(),
                               kernels::cpu(), object->context().execution());
  if (!nadamw.ok()) return nadamw.status();
  object->nadamw_ = std::move(nadamw.value());
  object->weights_generation_ = object->weights_->generation();
  object->gradients_generation_ = object->gradients_->generation();
  return object;
}

Status OptimiserObject::follow() {
  if (weights_->generation() == weights_generation_ &&
      gradients_->generation() == gradients_generation_)
    return {};
  ASYNCMESH_RETURN_IF_ERROR(nadamw_->rebind(weights_->table(), gradients_->table()));
  weights_generation_ = weights_->generation();
  gradients_generation_ = gradients_->generation();
  return {};
}

Status OptimiserObject::step(NadamwStep step, const Region* mirror, double* norm_out) {
  ASYNCMESH_RETURN_IF_ERROR(follow());
  kernels::ParameterTable copy;
  if (mirror != nullptr) {
    ASYNCMESH_RETURN_IF_ERROR(weights_->need_mirror(*mirror, "mirror"));
    copy = mirror->table();
    step.mirror = &copy;
  }
  return nadamw_->step(step, norm_out);
}

}  // namespace asyncmesh::core
