#include "serve/model.h"

#include <malloc.h>

#include <algorithm>
#include <future>

#include "base/dtype.h"
#include "runtime/least_precision.h"
#include "serve/ensemble.h"
#include "serve/home_cores.h"
#include "serve/outcome.h"
#include "serve/warm_up.h"

namespace tenon::serve {
namespace {

constexpr int kDefaultMaxBatch = 8;

TimePoint Now() {
  return std::chrono::steady_clock::now();
}

uint64_t Nanoseconds(Duration d) {
  return static_cast<uint64_t>(std::max<int64_t>(0, std::chrono::duration_cast<std::chrono::nanoseconds>(d).count()));
}

bool MayRunApart(const Status& status) {
  const Outcome outcome = OutcomeOf(status, false);
  return outcome == Outcome::kBadRequest || outcome == Outcome::kMemory;
}

}  // namespace

Model::Model(const ModelConfig& config, std::string version, std::string file, const Place& place,
             std::shared_ptr<Metrics> metrics)
    : config_(config), version_(std::move(version)), file_(std::move(file)), place_(place), metrics_(std::move(metrics)) {}

Result<std::shared_ptr<Model>> Model::Load(const ModelConfig& config, const std::string& version, const std::string& file,
                                           const ModelOpener& open, const Place& place, std::shared_ptr<Metrics> metrics) {
  std::shared_ptr<Model> model(new Model(config, version, file, place, std::move(metrics)));
  TENON_RETURN_IF_ERROR(model->Start(open));
  return model;
}

Model::~Model() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_all();
  for (auto& instance : instances_) {
    if (instance->thread.joinable()) instance->thread.join();
  }
}

Status Model::Start(const ModelOpener& open) {
  const int count = InstanceCount();
  const int share = IsEnsemble() ? 0 : static_cast<int>(place_.cores.size()) / count;
  const int width = config_.threads > 0 ? std::min(config_.threads, share) : share;
  queue_ = std::make_unique<BatchQueue>(QueuePolicy{});
  const auto home = std::make_shared<const std::vector<int>>(place_.cores);
  for (int i = 0; i < count; ++i) {
    auto instance = std::make_unique<Instance>();
    const auto first = place_.cores.begin() + static_cast<std::ptrdiff_t>(i) * share;
    instance->cores.assign(first, first + width);
    instances_.push_back(std::move(instance));
    // The session is opened by the thread that will run it, on its cores: the memory it touches first is near.
    std::promise<Status> opened;
    auto ready = opened.get_future();
    Instance* raw = instances_.back().get();
    raw->thread = std::thread([this, raw, home, &open, promise = std::move(opened)]() mutable {
      HomeCores() = home;
      Status status = OpenInstance(*raw, open);
      const bool ok = status.ok();
      promise.set_value(std::move(status));
      if (ok) Work(*raw);
    });
    TENON_RETURN_IF_ERROR(ready.get());
  }
  return Status::Ok();
}

Status Model::OpenInstance(Instance& instance, const ModelOpener& open) {
  SessionOptions options;
  options.threads = static_cast<int>(instance.cores.size());
  if (place_.pin) {
    PinSelf(IsEnsemble() ? place_.cores : instance.cores);
    options.cores = instance.cores;
  }
  options.memory_limit = place_.memory_limit / static_cast<uint64_t>(InstanceCount());
  if (place_.threads != nullptr) TENON_RETURN_IF_ERROR(place_.threads->Enter());   // threads of the session follow
  place_.gate->Acquire(instance.cores, *place_.share);
  auto session = open(file_, config_, options);
  Status status;
  if (session.ok()) {
    instance.session = std::move(session).value();
    if (instances_.size() == 1) status = SettleBatching();
    if (status.ok() && !IsEnsemble())
      status = WarmUp(*instance.session, layout_.requests(), layout_.joins() ? config_ : ModelConfig{});
    for (const WarmUpRun& run : config_.warm_up) {
      if (status.ok()) status = WarmUp(*instance.session, layout_, *config_.max_batch > 0, run);
    }
  } else {
    status = session.status();
  }
  place_.gate->Release(instance.cores, *place_.share);
  if (status.ok()) Charge(instance);
  return status;
}

// What was not configured follows from the model's shapes.
Status Model::SettleBatching() {
  const Session& session = *instances_[0]->session;
  const Signature signature{session.inputs(), session.outputs()};
  metadata_ = session.metadata();
  precision_ = runtime::LeastPrecision(session);
  const bool configured = config_.max_batch.has_value();
  if (!configured) config_.max_batch = !IsEnsemble() && signature.LooksBatched() ? kDefaultMaxBatch : 0;
  TENON_ASSIGN_OR_RETURN(layout_, Layout::Make(config_, signature));
  QueuePolicy policy;
  policy.max_rows = layout_.joins() ? *config_.max_batch : 1;
  policy.max_tokens = config_.max_batch_tokens;
  policy.max_padding = config_.max_padding;
  if (layout_.joins()) policy.preferred = config_.preferred_batch;
  policy.max_delay = config_.max_delay;
  policy.max_queue = config_.queue.max_queue;
  for (const auto& [priority, limits] : config_.priority_queues) policy.own_queues[priority] = limits.max_queue;
  const std::lock_guard lock(mutex_);
  queue_ = std::make_unique<BatchQueue>(policy);
  return Status::Ok();
}

std::string Model::Remark() const {
  std::string remark = precision_ == "f32" ? "" : "computes in " + precision_;
  for (const std::string& setting : config_.ignored) {
    remark += remark.empty() ? "" : "; ";
    remark += fmt::format("{} has no effect here", setting);
  }
  return remark;
}

void Model::Charge(Instance& instance) {
  const uint64_t now = instance.session->memory().charged;
  const uint64_t before = instance.charged.exchange(now, std::memory_order_relaxed);
  memory_.fetch_add(now - before, std::memory_order_relaxed);
}

InferResponse Model::Refusal(const Item& item, Outcome outcome, std::string message) const {
  InferResponse r;
  r.outcome = outcome;
  r.message = std::move(message);
  r.model = config_.name;
  r.version = version_;
  r.id = item.request.id;
  return r;
}

void Model::Answer(const ItemPtr& item, InferResponse response) {
  if (!item->place) return Send(*item, std::move(response));
  order_.Put(*item->place, [this, item, response = std::move(response)]() mutable { Send(*item, std::move(response)); });
}

void Model::Send(Item& item, InferResponse response) {
  metrics_->Finish(response.outcome, Nanoseconds(Now() - item.arrival), response.times, item.fit.rows, item.fit.tokens);
  auto done = std::move(item.done);
  item.request.inputs.clear();
  done(std::move(response));
}

ItemPtr Model::Submit(InferRequest request, std::function<void(InferResponse)> done, TimePoint arrival) {
  auto item = std::make_shared<Item>();
  item->arrival = arrival;
  item->request = std::move(request);
  SettleSchedule(item.get());
  Status status = signature().Check(item->request.inputs);
  if (status.ok()) status = signature().CheckOutputs(item->request.outputs);
  if (status.ok()) status = SettleFit(item->request.inputs, &item->fit);
  item->done = std::move(done);
  if (!status.ok()) {
    Answer(item, Refusal(*item, OutcomeOf(status, false), fmt::format("model '{}'; {}", config_.name, status.message())));
    return nullptr;
  }
  Duration wait{};
  std::string refusal = Enqueue(item, &wait);
  if (refusal.empty()) {
    arrived_.notify_one();
    return item;
  }
  Answer(item, Overload(*item, wait, std::move(refusal)));
  return nullptr;
}

const QueueLimits& Model::LimitsOf(uint32_t priority) const {
  const auto own = config_.priority_queues.find(priority);
  return own == config_.priority_queues.end() ? config_.queue : own->second;
}

// A request may ask for less time than its priority gives, not for more.
void Model::SettleSchedule(Item* item) const {
  const uint32_t last = config_.priority_levels;
  const uint32_t asked = item->request.priority == 0 ? config_.default_priority : item->request.priority;
  item->priority = asked == 0 ? last : std::min(asked, last);
  const QueueLimits& limits = LimitsOf(item->priority);
  std::chrono::microseconds timeout = limits.default_timeout, less = item->request.timeout;
  if (limits.allow_timeout_override && less.count() > 0 && (timeout.count() == 0 || less < timeout)) timeout = less;
  if (timeout.count() > 0) (limits.delay_late ? item->due : item->deadline) = item->arrival + timeout;
}

Status Model::SettleFit(const std::vector<HostTensor>& inputs, Fit* fit) const {
  if (IsEnsemble()) return Status::Ok();   // the leading extent of a file's bytes says nothing
  TENON_ASSIGN_OR_RETURN(*fit, layout_.FitOf(inputs));
  const bool too_many = config_.max_batch_tokens > 0 && fit->tokens > config_.max_batch_tokens;
  if (fit->rows > *config_.max_batch || too_many) fit->key.clear();
  return Status::Ok();
}

// A request that could be answered in its time, were it not for those ahead, is refused now: later it would only have waited for
// nothing. One that is alone is never refused, and one whose time is too short for any run is no matter of load.
std::string Model::Enqueue(const ItemPtr& item, Duration* wait) {
  const std::lock_guard lock(mutex_);
  std::vector<Running> running;
  for (const auto& instance : instances_) running.push_back(instance->running);
  const BatchQueue::Estimate estimate = queue_->Expect(*item, running, item->arrival);
  *wait = estimate.wait;
  const size_t others = running_ + queue_->size();
  if (throttled_ && others >= instances_.size())
    return "memory is above 80 % of its limit; no request is taken beside those that run";
  const Duration left = item->deadline == TimePoint::max() ? Duration::max() : item->deadline - item->arrival;
  if (estimate.wait > Duration::zero() && estimate.run <= left && estimate.wait + estimate.run > left)
    return fmt::format("{} requests are ahead; this one could not be answered in its time", others);
  const size_t capacity = queue_->Capacity(item->priority);
  if (config_.preserve_ordering && order_.waiting() >= capacity)
    return fmt::format("{} answers wait for one before them", capacity);
  if (!queue_->Push(item, others)) return fmt::format("its queue is full; it holds {} requests", capacity);
  if (config_.preserve_ordering) item->place = order_.Take();
  return "";
}

InferResponse Model::Overload(const Item& item, Duration wait, std::string why) const {
  InferResponse r = Refusal(item, Outcome::kOverload, fmt::format("model '{}'; {}", config_.name, why));
  r.retry_after_s = static_cast<int>(std::clamp<int64_t>(std::chrono::ceil<std::chrono::seconds>(wait).count(), 1, 60));
  return r;
}

void Model::Cancel(const ItemPtr& item) {
  {
    const std::lock_guard lock(mutex_);
    if (item->cancelled || item->state == Item::State::kDone) return;
    item->cancelled = true;
    if (item->state == Item::State::kRunning) {
      // A run of several goes on for the others.
      if (--item->batch->wanted == 0) item->batch->cancel.Cancel();
      return;
    }
    if (!queue_->Remove(item.get())) return;
    item->state = Item::State::kDone;
  }
  Answer(item, Refusal(*item, Outcome::kCancelled, "cancelled while it waited"));
}

void Model::Expire(TimePoint now) {
  std::vector<ItemPtr> expired;
  {
    const std::lock_guard lock(mutex_);
    if (queue_->size() == 0 || queue_->next_deadline() > now) return;
    expired = TakeExpired(now);
  }
  AnswerExpired(expired);
}

std::vector<ItemPtr> Model::TakeExpired(TimePoint now) {
  std::vector<ItemPtr> expired = queue_->TakeExpired(now);
  for (const ItemPtr& item : expired) item->state = Item::State::kDone;
  return expired;
}

void Model::AnswerExpired(const std::vector<ItemPtr>& expired) {
  for (const ItemPtr& item : expired) {
    Answer(item, Refusal(*item, Outcome::kDeadline,
                         fmt::format("model '{}'; the request's time was over while it waited", config_.name)));
  }
}

void Model::TrimIdle(TimePoint now, Duration idle) {
  {
    const std::lock_guard lock(mutex_);
    if (trim_ || running_ > 0 || last_run_ == TimePoint{} || now - last_run_ < idle) return;
    trim_ = true;
  }
  arrived_.notify_all();
}

size_t Model::queued() const {
  const std::lock_guard lock(mutex_);
  return queue_->size();
}

size_t Model::in_flight() const {
  const std::lock_guard lock(mutex_);
  return queue_->size() + running_;
}

void Model::Work(Instance& instance) {
  std::unique_lock lock(mutex_);
  last_run_ = Now();   // to warm up
  while (true) {
    if (queue_->size() == 0) {
      if (stopping_) return;
      if (trim_ && !instance.trimmed) {
        instance.trimmed = true;
        instance.session->Trim();
        Charge(instance);
        lock.unlock();
        malloc_trim(0);   // what requests and answers took
        lock.lock();
      } else {
        arrived_.wait(lock);
      }
      continue;
    }
    // The cores come first and the choice of requests after, so that those which arrive meanwhile may join.
    lock.unlock();
    const TimePoint wanted = Now();
    place_.gate->Acquire(instance.cores, *place_.share);
    lock.lock();
    const TimePoint now = Now();
    if (const std::vector<ItemPtr> expired = TakeExpired(now); !expired.empty()) {
      lock.unlock();
      AnswerExpired(expired);
      lock.lock();
    }
    auto decision = queue_->Take(now);
    if (decision.items.empty()) {
      place_.gate->Release(instance.cores, *place_.share);
      if (decision.wait_until != TimePoint::max()) arrived_.wait_until(lock, decision.wait_until);
      continue;
    }
    Batch batch;
    batch.items = std::move(decision.items);
    batch.waited = now - wanted;
    batch.wanted = batch.items.size();
    running_ += batch.items.size();
    for (const ItemPtr& item : batch.items) {
      item->state = Item::State::kRunning;
      item->batch = &batch;
      batch.size.Add(item->fit);
    }
    instance.running = {batch.size.rows(), now};
    trim_ = false;
    instance.trimmed = false;
    lock.unlock();
    RunBatch(instance, batch);
    lock.lock();
    running_ -= batch.items.size();
    last_run_ = Now();
  }
}

// Runs on the cores taken, gives them back, and answers.
void Model::RunBatch(Instance& instance, Batch& batch) {
  const TimePoint taken = Now();
  RunOptions options;
  options.cancel = &batch.cancel;
  options.deadline = taken;
  std::vector<const std::vector<HostTensor>*> requests;
  for (const ItemPtr& item : batch.items) {
    options.deadline = std::max(options.deadline, item->deadline);
    requests.push_back(&item->request.inputs);
  }
  InferTimes times;
  const bool several = batch.items.size() > 1;
  std::vector<HostTensor> joined;
  Status status;
  if (several || layout_.ragged()) status = layout_.Join(requests, &instance.buffers, &joined);
  const TimePoint begin = Now();
  times.input = Nanoseconds(begin - taken);
  auto outputs = status.ok() ? instance.session->Run(joined.empty() ? *requests[0] : joined, options)
                             : Result<std::vector<HostTensor>>(std::move(status));
  const TimePoint end = Now();
  times.infer = Nanoseconds(end - begin);
  if (several && MayRunApart(outputs.status())) return RunApart(instance, batch);
  Settle(instance, batch);
  if (!outputs.ok()) {
    place_.gate->Release(instance.cores, *place_.share);
    if (outputs.status().code() == Code::kCancelled) {
      const std::lock_guard lock(mutex_);
      queue_->OnStopped(batch.size.rows(), end - taken);
    }
    Fail(instance, batch, outputs.status(), times, taken);
    return;
  }
  std::vector<InferResponse> responses = PartOutputs(batch, *outputs);
  times.output = Nanoseconds(Now() - end);
  metrics_->Ran(batch.size.rows(), batch.size.padded_tokens() - batch.size.tokens(), times);
  place_.gate->Release(instance.cores, *place_.share);
  for (size_t i = 0; i < responses.size(); ++i) {
    responses[i].times = times;
    responses[i].times.queue = Nanoseconds(taken - batch.items[i]->arrival);
    Answer(batch.items[i], std::move(responses[i]));
  }
  const std::lock_guard lock(mutex_);
  queue_->OnServed(batch.size.rows(), Now() - taken, batch.waited);
}

// One request of the batch has values that the model refuses, or all together are too large: none shall suffer for the others.
void Model::RunApart(Instance& instance, Batch& batch) {
  place_.gate->Release(instance.cores, *place_.share);
  for (const ItemPtr& item : batch.items) {
    Batch alone;
    {
      const std::lock_guard lock(mutex_);
      alone.items = {item};
      alone.size.Add(item->fit);
      alone.wanted = item->cancelled ? 0 : 1;
      if (item->cancelled) alone.cancel.Cancel();
      item->batch = &alone;
      instance.running = {alone.size.rows(), Now()};
    }
    place_.gate->Acquire(instance.cores, *place_.share);
    RunBatch(instance, alone);
  }
}

// The run is over: nobody can cancel it any more.
void Model::Settle(Instance& instance, Batch& batch) {
  Charge(instance);
  const std::lock_guard lock(mutex_);
  instance.running = {};
  for (const ItemPtr& item : batch.items) {
    item->state = Item::State::kDone;
    item->batch = nullptr;
  }
}

std::vector<InferResponse> Model::PartOutputs(const Batch& batch, const std::vector<HostTensor>& outputs) const {
  std::vector<InferResponse> responses;
  Parting parting(layout_, outputs, batch.size.rows());
  const TimePoint now = Now();
  for (const ItemPtr& item : batch.items) {
    responses.push_back(Refusal(*item, Outcome::kOk, ""));
    InferResponse& r = responses.back();
    if (item->cancelled) {
      r.outcome = Outcome::kCancelled;
      r.message = "cancelled while it ran";
    } else if (now > item->deadline) {
      r.outcome = Outcome::kDeadline;
      r.message = fmt::format("model '{}'; the request's time was over when its run ended", config_.name);
    } else {
      auto part = parting.Next(item->request.inputs, item->fit.rows, item->request.outputs);
      Status status = part.status();
      if (status.ok() && item->request.check_outputs) status = item->request.check_outputs(*part);
      r.outcome = status.code() == Code::kResourceLimit ? Outcome::kTooLarge : OutcomeOf(status, false);
      r.message = status.message();
      if (status.ok()) r.outputs = std::move(part).value();
    }
    parting.Advance(item->request.inputs, item->fit.rows);
  }
  return responses;
}

void Model::Fail(const Instance& instance, const Batch& batch, const Status& status, InferTimes times, TimePoint taken) {
  const TimePoint now = Now();
  const auto* ensemble = dynamic_cast<const EnsembleSession*>(instance.session.get());
  for (const ItemPtr& item : batch.items) {
    Outcome outcome = OutcomeOf(status, now > item->deadline);
    if (ensemble != nullptr) outcome = ensemble->outcome().value_or(outcome);
    if (item->cancelled) outcome = Outcome::kCancelled;
    InferResponse r = Refusal(*item, outcome, fmt::format("model '{}'; {}", config_.name, status.message()));
    if (ensemble != nullptr) r.retry_after_s = ensemble->retry_after_s();
    times.queue = Nanoseconds(taken - item->arrival);
    r.times = times;
    Answer(item, std::move(r));
  }
}

}  // namespace tenon::serve
