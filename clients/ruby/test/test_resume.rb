# frozen_string_literal: true

require_relative "fake_init"

# Steps, loops and checkpoints.
class TestResume < WorkerTest
  def test_a_finished_step_is_not_run_again_and_gives_the_same_result
    ran = []
    worker = worker_with do |job|
      results = %w[a b].map { |name| job.step(name) { (ran << name) && { done: name } } }
      raise "later" if job.attempt == 1
      results
    end
    first = worker.perform("t")
    assert_equal([["a", { "done" => "a" }], ["b", { "done" => "b" }]], first.checkpoints.last["steps"])
    second = worker.perform("t", [], attempt: 2, checkpoint: first.checkpoints.last)
    assert_equal([{ "done" => "a" }, { "done" => "b" }], second.result)
    assert_equal(%w[a b], ran)
  end

  def test_other_steps_than_before_fail_the_job_for_good
    worker = worker_with { |job| job.args.each { |name| job.step(name) { 1 } } }
    [form(steps: [["a", 1], ["b", 2]]), form(cursors: { "b" => 3 })].each do |saved|
      error = worker.perform("t", %w[a c], checkpoint: saved).error
      assert_equal(["StepsChanged", false], error.values_at("type", "retryable"))
    end
    assert_match(/two steps a/, worker.perform("t", %w[a a]).error["message"])
    nested = worker_with { |job| job.step("a") { job.step("b") { 1 } } }
    assert_match(/step b begins within the step a/, nested.perform("t").error["message"])
  end

  def test_a_step_that_fails_may_run_again
    worker = worker_with do |job|
      tries = 0
      begin
        job.step("a") { (tries += 1) == 1 ? raise("once") : job.iterate([1]) { tries } }
      rescue RuntimeError
        retry
      end
      job.step("b") { tries }
    end
    assert_equal(2, worker.perform("t").result)
  end

  def test_a_result_of_a_step_that_is_no_json_fails_the_job
    error = worker_with { |job| job.step("a") { Object.new } }.perform("t").error
    assert_match(/an object of the class Object/, error["message"])
  end

  def test_a_loop_goes_on_behind_the_last_finished_row
    rows = nil
    worker = worker_with do |job|
      rows = []
      key = job.args[0]&.to_sym
      job.iterate([{ id: "x" }, { id: "y" }, { id: "z" }], key: key && ->(row) { row[key] }) do |row|
        raise "broken" if row[:id] == "z" && job.attempt == 1
        rows << row[:id]
      end
    end
    { [] => [0, 1], ["id"] => %w[x y] }.each_value.with_index do |positions, index|
      args = index.zero? ? [] : ["id"]
      failed = worker.perform("t", args)
      assert_equal({ "" => positions.last }, failed.checkpoints.last["cursors"])
      worker.perform("t", args, attempt: 2, checkpoint: failed.checkpoints.last)
      assert_equal(["z"], rows)
    end
  end

  def test_a_loop_over_a_callable_asks_for_the_rows_behind_the_position
    worker = worker_with do |job|
      rows = []
      job.iterate(->(position) { (position ? position + 1 : 0)..3 }, key: :itself) { |row| rows << row }
      rows
    end
    assert_equal([0, 1, 2, 3], worker.perform("t").result)
    assert_equal([2, 3], worker.perform("t", [], checkpoint: form(cursors: { "" => 1.0 })).result)
  end

  def test_a_checkpoint_may_have_a_number_that_ruby_cannot_write
    verbose, $VERBOSE = $VERBOSE, nil # The parser warns of it.
    serve(&:last_checkpoint)
    @init.write(%({"type":"job","job":{"id":"j1","type":"t"},"checkpoint":{"n":1e400}}\n))
    assert_equal({ "type" => "ack", "job_id" => "j1" }, @init.answer)
    assert_equal("j2", @init.answer_to("j2")["job_id"])
  ensure
    $VERBOSE = verbose
  end

  def test_a_key_that_does_not_come_any_more_fails_the_job_for_good
    worker = worker_with { |job| job.iterate([1, 2], key: :itself) { nil } }
    assert_equal("StepsChanged", worker.perform("t", [], checkpoint: form(cursors: { "" => 9 })).error["type"])
    by_index = worker_with { |job| job.iterate([1, 2]) { nil } }
    assert_equal("StepsChanged", by_index.perform("t", [], checkpoint: form(cursors: { "" => "k" })).error["type"])
    assert_predicate(by_index.perform("t", [], checkpoint: form(cursors: { "" => 9 })), :ack?)
  end

  def test_a_row_may_be_several_values_and_change
    worker = worker_with do |job|
      job.iterate([+"a"].each_with_index, key: ->((name, _)) { name }) { |name, _| name << "!" }
      job.step("next") { nil }
    end
    assert_equal({ "" => "a" }, worker.perform("t").checkpoints.last["cursors"])
  end

  def test_a_checkpoint_that_only_looks_like_the_common_form_is_the_handlers_own
    worker = worker_with(&:last_checkpoint)
    deep = (1..90).reduce([]) { |inner, _| [inner] }
    [{ "ojs_resume" => 1 }, { "ojs_resume" => 1, "steps" => 1, "cursors" => {} }, deep].each do |saved|
      assert_equal(saved, worker.perform("t", [], checkpoint: saved).result)
    end
  end

  def test_two_loops_in_one_place_are_an_error
    worker = worker_with { |job| 2.times { job.iterate([1]) { nil } } }
    assert_match(/two loops/, worker.perform("t").error["message"])
    assert_match(/iterate has a block/, worker_with { |job| job.iterate([1]) }.perform("t").error["message"])
  end

  def test_a_shutdown_that_is_near_gives_the_job_back_with_its_position
    worker = worker_with { |job| job.iterate(0..) { job.sleep(0.02) } }
    outcome = worker.perform("t", [], stopping: 0.4)
    assert_equal(["release", "resumes at its checkpoint"], [outcome.outcome, outcome.reason])
    assert_operator(outcome.checkpoints.last["cursors"][""], :>=, 0)
  end

  def test_a_step_that_took_longer_than_what_is_left_is_not_begun
    worker = worker_with { |job| job.step("slow") { sleep(0.3) } }
    worker.perform("t", [], stopping: 60)
    session_times = worker_with do |job|
      job.instance_variable_get(:@session).step_times[%w[t slow]] = 100
      job.step("slow") { raise "begun" }
    end
    assert_equal("resumes at its checkpoint", session_times.perform("t", [], stopping: 60).reason)
  end

  def test_a_cancel_ends_a_loop_with_its_reason
    worker = worker_with { |job| job.iterate(0..) { job.wait_cancelled(0.01) } }
    outcome = worker.perform("t", [], cancel: "shutdown", cancel_after: 0.05)
    assert_equal(["release", "shutdown", 1], [outcome.outcome, outcome.reason, outcome.checkpoints.size])
    assert_equal("timeout", worker.perform("t", [], timeout: 0.05).error["code"])
    assert_empty(worker.perform("t", [], cancel: "lost", cancel_after: 0.05).checkpoints)
  end

  def test_more_than_64_kib_fails_the_job_for_good_and_keeps_what_was_there
    worker = worker_with do |job|
      job.step("a") { "small" }
      job.step("b") { "x" * 70_000 }
    end
    outcome = worker.perform("t")
    assert_equal(["CheckpointTooLarge", false], outcome.error.values_at("type", "retryable"))
    assert_equal([%w[a small]], outcome.checkpoints.last["steps"])
  end

  def test_a_handlers_own_checkpoint_stands_beside_the_steps
    worker = worker_with do |job|
      job.checkpoint({ mine: job.last_checkpoint })
      job.step("a") { 1 }
      job.checkpoint(nil)
    end
    outcome = worker.perform("t", [], checkpoint: [1])
    assert_equal({ "mine" => [1] }, outcome.checkpoints[0])
    assert_equal([{ "mine" => [1] }, nil], outcome.checkpoints[1..].map { |saved| saved["state"] })
  end

  private

  def form(steps: [], cursors: {})
    { "ojs_resume" => 1, "steps" => steps, "cursors" => cursors, "state" => nil }
  end

  def worker_with(&handler)
    worker = new_worker
    worker.job("t", &handler)
    worker
  end
end
