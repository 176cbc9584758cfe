# frozen_string_literal: true

require_relative "fake_init"

# Steps and loops: where a later attempt goes on.
class TestResume < WorkerTest
  # The frames of a job until its answer.
  def frames_of(id, *args, **more)
    @init.send_frame(job_frame(id, "t", *args, **more))
    frames = []
    loop do
      frames << @init.next_frame
      return frames if %w[ack fail release].include?(frames.last["type"])
    end
  end

  def form(steps: [], cursors: {}, state: nil)
    { "ojs_resume" => 1, "steps" => steps, "cursors" => cursors, "state" => state }
  end

  def iterate_over(count, **more, &block)
    lambda do |job|
      done = []
      job.iterate(0...count, **more) do |row|
        block&.call(row, job)
        done << row
      end
      done
    end
  end

  def test_a_loop_yields_each_row_and_saves_nothing_when_it_is_quick
    serve(&iterate_over(5))
    assert_equal([%w[ack], [0, 1, 2, 3, 4]], frames_of("j1").then { |frames| [frames.map { _1["type"] }, frames.last["result"]] })
  end

  def test_a_loop_goes_on_behind_the_index_of_the_last_finished_row
    serve(&iterate_over(5))
    assert_equal([3, 4], frames_of("j1", checkpoint: form(cursors: { "" => 2 })).last["result"])
  end

  def test_a_loop_with_keys_goes_on_behind_the_row_with_the_last_key
    serve(&iterate_over(5, key: ->(row) { "k#{row}" }))
    assert_equal([2, 3, 4], frames_of("j1", checkpoint: form(cursors: { "" => "k1" })).last["result"])
  end

  def test_a_row_may_be_changed_once_its_loop_is_in_it
    serve do |job|
      rows = [{ "id" => 1 }, { "id" => 2 }]
      job.iterate(rows, key: ->(row) { row.fetch("id") }) { |row| raise "stop" if row.delete("id") == 2 }
    end
    saved, failed = frames_of("j1")
    assert_equal([form(cursors: { "" => 1 }), "stop"], [saved["state"], failed["error"]["message"]])
  end

  def test_what_could_not_be_saved_is_saved_before_the_end
    serve do |job|
      session = job.instance_variable_get(:@session)
      session.define_singleton_method(:wait_until_written) { |*| raise OjsWorker::Stalled, "nobody reads" }
      begin
        job.step("pay") { "paid" }
      ensure
        session.singleton_class.send(:remove_method, :wait_until_written)
      end
    end
    _, saved, failed = frames_of("j1")
    assert_equal([form(steps: [%w[pay paid]]), "nobody reads"], [saved["state"], failed["error"]["message"]])
  end

  def test_a_key_is_the_same_number_however_a_backend_spells_it
    serve(&iterate_over(5, key: :itself))
    assert_equal([3, 4], frames_of("j1", checkpoint: form(cursors: { "" => 2.0 })).last["result"])
  end

  def test_a_key_may_be_the_name_of_a_method
    serve(&iterate_over(5, key: :succ))
    assert_equal([2, 3, 4], frames_of("j1", checkpoint: form(cursors: { "" => 2 })).last["result"])
  end

  def test_a_key_that_does_not_come_any_more_is_the_error_steps_changed
    serve(&iterate_over(5, key: ->(row) { "k#{row}" }))
    error = frames_of("j1", checkpoint: form(cursors: { "" => "gone" })).last["error"]
    assert_equal(["StepsChanged", false], error.values_at("type", "retryable"))
    assert_includes(error["message"], "gone")
  end

  def test_rows_may_be_asked_for_from_the_position_on
    asked = []
    serve do |job|
      rows = lambda do |position|
        asked << position
        ((position || -1) + 1...4)
      end
      [].tap { |done| job.iterate(rows, key: :itself.to_proc) { |row| done << row } }
    end
    assert_equal([0, 1, 2, 3], frames_of("j1").last["result"])
    assert_equal([3], frames_of("j2", checkpoint: form(cursors: { "" => 2 })).last["result"])
    assert_equal([nil, 2], asked)
  end

  def test_a_failure_saves_the_position_first_and_the_next_attempt_does_the_rest
    serve(&iterate_over(5) { |row, job| raise "row #{row}" if row == 3 && job.last_checkpoint.nil? && job.args == ["fail"] })
    saved, failed = frames_of("j1", "fail")
    assert_equal(form(cursors: { "" => 2 }), saved["state"])
    assert_equal("row 3", failed["error"]["message"])
    assert_equal([3, 4], frames_of("j1", checkpoint: saved["state"]).last["result"])
  end

  def test_a_stop_nearer_than_a_usual_row_saves_and_releases_before_the_next_row
    rows = Thread::Queue.new
    serve(&iterate_over(1000) do |row, _|
      rows << row
      sleep(0.2)
    end)
    @init.send_frame(job_frame("j1"))
    take(rows)
    # 1.5 times 0.2 s are more than what is left after the first rows.
    @init.terminate(700)
    saved = @init.expect("checkpoint")
    released = @init.expect("release")
    assert_equal("resumes at its checkpoint", released["reason"])
    last = saved["state"]["cursors"][""]
    assert_includes(0..4, last)
    assert_equal(last, rows.size) # the first was taken out
  end

  def test_a_stop_that_is_far_lets_the_loop_go_on
    serve(&iterate_over(3) { sleep(0.01) })
    @init.send_frame(job_frame("j1"))
    @init.terminate(60_000)
    assert_equal("ack", @init.answer["type"])
  end

  { "shutdown" => "release", "timeout" => "fail", "cancelled" => "release" }.each do |reason, kind|
    define_method("test_a_loop_that_is_cancelled_for_#{reason}_saves_its_position_and_ends_with_#{kind}") do
      running = Thread::Queue.new
      serve(&iterate_over(1000) do |_, job|
        running << 1
        job.wait_cancelled
      end)
      @init.send_frame(job_frame("j1"))
      take(running)
      @init.send_frame({ type: "cancel", job_id: "j1", reason: reason, grace_ms: 1000 })
      assert_equal({ "" => 0 }, @init.expect("checkpoint")["state"]["cursors"])
      assert_equal(kind, @init.next_frame["type"])
    end
  end

  def test_a_rescue_of_the_handler_s_own_lets_the_end_of_a_loop_through
    serve do |job|
      job.iterate(0...3) do |_row|
        job.wait_stopping
      rescue StandardError
        nil
      end
    rescue StandardError
      "swallowed"
    end
    @init.send_frame(job_frame("j1"))
    @init.terminate(100)
    assert_equal("resumes at its checkpoint", @init.answer["reason"])
  end

  def test_a_step_in_which_an_earlier_attempt_stopped_has_to_be_the_next_one
    serve(&steps("a", "b"))
    error = frames_of("j1", checkpoint: form(steps: [%w[a A]], cursors: { "import" => 3 })).last["error"]
    assert_equal("an earlier attempt was in the step import; now they come as a, b", error["message"])
  end

  def test_a_position_is_saved_every_5_seconds_and_not_more_often
    resume = OjsWorker::Resume.new(nil)
    start = OjsWorker.now
    refute(resume.due?)
    OjsWorker.stub(:now, start + 5.1) do
      assert(resume.due?)
      resume.move("", 1)
      resume.save { nil }
      refute(resume.due?)
    end
  end

  def test_two_loops_in_one_place_are_an_error
    serve do |job|
      job.iterate([1]) { nil }
      job.iterate([1]) { nil }
    end
    assert_includes(frames_of("j1").last["error"]["message"], "a step of its own")
  end

  # Of an enumerator's rows nobody knows when they are done: each_slice takes four before it does the first.
  def test_a_loop_without_a_block_is_an_error_that_says_how_to_take_several_rows_at_once
    serve { |job| job.iterate(%w[a b]).map(&:upcase) }
    assert_match(/has a block.*each_slice/, frames_of("j1").last["error"]["message"])
  end

  def test_a_loop_over_slices_loses_none_and_does_none_twice
    stored = []
    serve do |job|
      job.iterate((1..10).each_slice(4), key: (:first.to_proc if job.args[1])) do |slice|
        raise "no" if slice[0] == 5 && job.args[0]
        stored.concat(slice)
      end
    end
    [false, true].each do |keyed|
      saved = frames_of("j1", true, keyed)[0]["state"]
      frames_of("j1", false, keyed, checkpoint: saved)
    end
    assert_equal([*1..10] * 2, stored)
  end

  def steps(*names)
    lambda do |job|
      ran = []
      results = names.map { |name| job.step(name) { ran << name && name.upcase.to_sym } }
      [ran, results]
    end
  end

  def test_each_finished_step_is_a_checkpoint
    serve(&steps("a", "b"))
    first, second, done = frames_of("j1")
    assert_equal(form(steps: [%w[a A]]), first["state"])
    assert_equal(form(steps: [%w[a A], %w[b B]]), second["state"])
    assert_equal([%w[a b], %w[A B]], done["result"])
  end

  def test_finished_steps_are_not_run_again_and_give_the_results_that_were_saved
    serve(&steps("a", "b"))
    assert_equal([["b"], %w[saved B]], frames_of("j1", checkpoint: form(steps: [%w[a saved]])).last["result"])
  end

  def test_other_steps_than_before_are_the_error_steps_changed_with_both_orders
    serve(&steps("b", "a"))
    error = frames_of("j1", checkpoint: form(steps: [%w[a A], %w[b B]])).last["error"]
    assert_equal(["StepsChanged", false], error.values_at("type", "retryable"))
    assert_equal("the steps that were finished before are a, b; now they come as b", error["message"])
  end

  def test_a_loop_in_a_step_has_a_position_of_its_own_that_ends_with_the_step
    serve do |job|
      job.step("import") { [].tap { |done| job.iterate(0...4) { |row| done << row } } }
    end
    before = form(cursors: { "import" => 1 }, state: { "mine" => 1 })
    saved, done = frames_of("j1", checkpoint: before)
    assert_equal(form(steps: [["import", [2, 3]]], state: { "mine" => 1 }), saved["state"])
    assert_equal([2, 3], done["result"])
  end

  def test_the_program_s_own_checkpoint_stands_beside_the_steps
    serve do |job|
      job.step("a") { nil }
      job.checkpoint({ page: 3 })
      job.last_checkpoint
    end
    frames = frames_of("j1", checkpoint: form(state: "old"))
    assert_equal(form(steps: [["a", nil]], state: { "page" => 3 }), frames[-2]["state"])
    assert_equal("old", frames.last["result"])
  end

  def test_a_checkpoint_that_is_too_large_does_not_keep_the_position_from_being_saved
    serve do |job|
      job.iterate(0...4) do |row|
        assert_raises(OjsWorker::CheckpointTooLarge) { job.checkpoint("x" * 70_000) } if row == 1
        raise "row 3" if row == 3
      end
    end
    saved, failed = frames_of("j1")
    assert_equal(form(cursors: { "" => 2 }), saved["state"])
    assert_equal("fail", failed["type"])
  end

  def test_a_state_that_was_refused_is_not_kept_whatever_the_reason
    deep = 99.times.inject(1) { |inner, _| [inner] }
    serve do |job|
      job.step("a") { 1 }
      assert_raises(ArgumentError) { job.checkpoint(deep) }
      job.step("b") { 2 }
    end
    frames = frames_of("j1")
    assert_equal([form(steps: [["a", 1], ["b", 2]]), 2], [frames[-2]["state"], frames.last["result"]])
  end

  def test_of_two_threads_checkpoints_the_newer_one_is_sent_last
    slow = OjsWorker::Wire.method(:frame)
    begun = Thread::Queue.new
    frame = lambda do |kind, id = nil, *raw, **fields|
      (begun << 1) && sleep(0.1) if kind == "checkpoint" && raw[0].include?("older")
      slow.call(kind, id, *raw, **fields)
    end
    serve do |job|
      job.step("a") { 1 } if job.args[0]
      other = Thread.new { job.checkpoint("older") }
      take(begun)
      job.checkpoint("newer")
      other.join && nil
    end
    OjsWorker::Wire.stub(:frame, frame) do
      assert_equal("newer", frames_of("j1")[-2]["state"])
      assert_equal("newer", frames_of("j2", true)[-2]["state"]["state"])
    end
  end

  def test_an_index_that_a_backend_spells_with_a_point_is_an_index
    serve(&iterate_over(4))
    assert_equal([2, 3], frames_of("j1", checkpoint: form(cursors: { "" => 1.0 })).last["result"])
  end

  def test_what_a_handler_does_with_a_step_s_result_does_not_change_what_is_saved
    serve do |job|
      files = job.step("list") { %w[a b] }
      files.shift.clear
      job.step("next") { files }
    end
    2.times do |n|
      checkpoint = n.zero? ? nil : form(steps: [["list", %w[a b]]])
      assert_equal(form(steps: [["list", %w[a b]], ["next", ["b"]]]), frames_of("j#{n}", checkpoint: checkpoint)[-2]["state"])
    end
  end

  def test_what_a_handler_does_with_its_last_checkpoint_or_a_position_does_not_change_what_is_saved
    serve do |job|
      job.last_checkpoint["sum"] += 1
      job.iterate(->(position) { position.clear && [] }, key: :itself) { nil }
      job.step("a") { nil }
    end
    before = form(state: { "sum" => 0 }, cursors: { "" => [1] })
    assert_equal(before.merge("steps" => [["a", nil]]), frames_of("j1", checkpoint: before)[0]["state"])
  end

  def test_a_job_without_steps_keeps_its_own_form_of_a_checkpoint
    serve { |job| job.checkpoint([1]) && nil }
    assert_equal([1], frames_of("j1")[0]["state"])
  end

  def test_more_than_64_kib_are_the_error_checkpoint_too_large
    serve { |job| job.step("a") { "x" * 70_000 } }
    error = frames_of("j1").last["error"]
    assert_equal(["CheckpointTooLarge", false], error.values_at("type", "retryable"))
  end

  def test_steps_with_one_name_or_within_each_other_are_errors
    serve { |job| job.args[0] ? job.step("a") { job.step("b") { 1 } } : [job.step("a") { 1 }, job.step("a") { 1 }] }
    assert_includes(frames_of("j1").last["error"]["message"], "a name of its own")
    assert_includes(frames_of("j2", true).last["error"]["message"], "one after the other")
  end

  def test_a_step_whose_result_is_no_json_is_the_failure_invalid_result
    serve { |job| job.step("a") { Time.now } }
    assert_equal("InvalidResult", frames_of("j1").last["error"]["type"])
  end

  def test_a_step_that_took_longer_than_what_is_left_is_not_begun_in_a_stop
    ran = Thread::Queue.new
    started = Thread::Queue.new
    serve do |job|
      (started << 1) && job.wait_stopping if job.args[0]
      job.step("slow") { (ran << job.id) && sleep(0.4) }
      nil
    end
    frames_of("j1")
    @init.send_frame(job_frame("j2", "t", true))
    take(started)
    @init.terminate(500)
    assert_equal("resumes at its checkpoint", @init.answer["reason"])
    assert_equal(1, ran.size)
  end
end
