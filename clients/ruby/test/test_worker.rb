# frozen_string_literal: true

require_relative "fake_init"

# Registration, options, the fields of a job, and the end.
class TestWorker < WorkerTest
  def test_an_unknown_option_is_named_with_the_known_ones
    [-> { OjsWorker::Worker.new(concurency: 3) }, -> { new_worker.run(prozesses: 2) },
     -> { OjsWorker::Retry.new("x", aftr: 1) }, -> { new_worker.perform("t", [], tmeout: 1) }].each do |call|
      assert_match(/unknown option :\w+; the options are \w+/, assert_raises(ArgumentError, &call).message)
    end
  end

  def test_a_bad_option_is_an_error
    [0, 1.5, "3", 10_001].each { |n| assert_raises(ArgumentError) { OjsWorker::Worker.new(concurrency: n) } }
    assert_raises(ArgumentError) { new_worker.run(processes: 0) }
    assert_raises(OjsWorker::Error) { new_worker.run }
  end

  def test_a_bad_registration_is_an_error
    worker = new_worker
    worker.job("t") { nil }
    assert_raises(ArgumentError) { worker.job("t") { nil } }
    assert_raises(ArgumentError) { worker.job(:symbol) { nil } }
    assert_raises(ArgumentError) { worker.job("u") }
    assert_raises(ArgumentError) { worker.job("u", handler: 5) }
    assert_raises(ArgumentError) { worker.job("u", args: [String]) { |_job, _to, _count| nil } }
    assert_raises(ArgumentError) { worker.middleware { |_job, _next| nil } }
  end

  def test_a_handler_that_cannot_be_called_is_refused_with_the_right_form
    takes_none = Class.new { def call; end }.new
    [-> {}, ->(_job, to:) { to }, proc { |_job, to:| to }, takes_none].each do |handler|
      error = assert_raises(ArgumentError) { new_worker.job("u", handler: handler) }
      assert_match(/\{ \|job\| \.\.\. \}.*\{ \|job, to, body\| \.\.\. \}/, error.message)
    end
  end

  def test_a_handler_gets_the_arguments_that_it_has_parameters_for
    worker = new_worker
    takes = Class.new { def call(_job, to, count = 1) = [to, count] }.new
    worker.job("object", handler: takes)
    worker.job("block") { |_job, to, count = 1| [to, count] }
    worker.job("rest") { |_job, to, *rest| [to, *rest] }
    worker.job("all") { |_job, *all| all }
    worker.job("alone") { |job| [*job.args] }
    worker.job("symbol", &:args)
    %w[object block].each { |type| assert_equal(["a", 1], worker.perform(type, ["a"]).result) }
    %w[alone symbol rest all].each { |type| assert_equal(["a", 2], worker.perform(type, ["a", 2]).result) }
  end

  def test_without_ojs_init_it_says_in_a_sentence_how_to_start_it
    worker = OjsWorker::Worker.new(socket_path: "")
    worker.job("t") { nil }
    assert_match(/Run it as: ojs-init -- ruby /, assert_raises(OjsWorker::NotUnderOjsInit) { worker.run }.message)
    worker = OjsWorker::Worker.new(socket_path: "/tmp/there-is-none")
    worker.job("t") { nil }
    assert_match(/cannot connect/, assert_raises(OjsWorker::NotUnderOjsInit) { worker.run }.message)
  end

  def test_another_protocol_is_an_error
    worker = new_worker
    worker.job("t") { nil }
    thread = start(worker)
    @init.accept(protocol: 2)
    assert_instance_of(OjsWorker::ProtocolError, thread.value)
  end

  def test_it_ends_when_terminate_came_and_the_last_job_is_answered
    go = Thread::Queue.new
    worker, thread = serve { go.pop }
    @init.send_frame(job_frame("j1"))
    @init.terminate
    wait_until { worker.state == "terminate" }
    assert_in_delta(25, worker.remaining, 5)
    go << "result"
    assert_equal("result", @init.answer["result"])
    assert_equal(:ended, thread.value)
  end

  def test_a_log_that_nobody_reads_stops_no_pong_and_no_cancel
    lock = Thread::Queue.new
    OjsWorker.logger = Class.new(Logger) { define_method(:info) { |*| lock.pop } }.new(nil)
    _, thread = serve { |job| job.wait_cancelled }
    @init.send_frame(job_frame("j1"))
    200.times { %w[quiet running].each { |state| @init.send_frame({ type: "lifecycle", state: state }) } }
    sync
    @init.send_frame({ type: "cancel", job_id: "j1", reason: "cancelled" })
    assert_equal("j1", @init.answer["job_id"])
    lock.close
    @init.terminate
    assert_equal(:ended, thread.value)
  end

  def test_who_works_is_checked_on_only_if_the_program_asks_for_it
    [[{}, false], [{ ping: true }, true]].each do |options, asks|
      worker = OjsWorker::Worker.new(**options, socket_path: @init.path, handle_signals: false)
      worker.job("t") { nil }
      thread = Thread.new { worker.run }
      assert_equal(asks, @init.greet["ping"])
      @init.terminate
      thread.join
    end
  end

  def test_stop_takes_no_more_jobs_and_finishes_what_is_held
    go = Thread::Queue.new
    worker, thread = serve { go.pop }
    @init.send_frame(job_frame("j1"))
    wait_until { go.num_waiting == 1 }
    worker.stop
    assert_equal([0, ["t"]], @init.expect("ready").values_at("concurrency", "types"))
    go << "result"
    assert_equal("result", @init.answer["result"])
    assert_equal(:ended, thread.value)
  end

  def test_a_closed_connection_cancels_the_handlers_and_ends_the_process_with_status_one
    reasons = Thread::Queue.new
    _, thread = serve do |job|
      job.sleep(60)
    ensure
      reasons << job.cancel_reason
    end
    @init.send_frame(job_frame("j1"))
    sync
    @init.close
    assert_equal(1, thread.value.status)
    assert_equal("lost", reasons.pop)
  end

  def test_a_handler_that_hangs_does_not_keep_the_process_when_the_connection_closes
    pid = spawn_program('w = OjsWorker::Worker.new; w.job("t") { loop { sleep } }; w.run', err: File::NULL)
    @init.greet
    @init.send_frame(job_frame("j1"))
    sync
    @init.close
    assert_equal(1, wait_for(pid).exitstatus)
  end

  def test_sigterm_lets_a_job_finish_and_then_ends
    source = 'w = OjsWorker::Worker.new; w.job("t") { |job| job.progress(0.5); sleep 0.3; 5 }; w.run; warn "done"'
    pid = spawn_program(source, err: File::NULL)
    @init.greet
    @init.send_frame(job_frame("j1"))
    @init.expect("progress")
    Process.kill("TERM", pid)
    assert_equal(0, @init.expect("ready")["concurrency"])
    assert_equal(5, @init.answer["result"])
    assert_equal(0, wait_for(pid).exitstatus)
  end

  def test_a_thread_that_a_hook_or_a_logger_starts_does_not_keep_the_process
    source = <<~RUBY
      starts = Class.new(Logger) { def error(*) = @thread ||= Thread.new { sleep } }
      OjsWorker.logger = starts.new(nil) if ARGV[0] == "logger"
      worker = OjsWorker::Worker.new
      worker.on_failed { @thread ||= Thread.new { sleep } } if ARGV[0] == "hook"
      worker.job("t") { raise "x" }
      worker.run
    RUBY
    %w[hook logger].each do |who|
      pid = spawn_program(source, who, err: File::NULL)
      @init.greet
      assert_equal("fail", @init.answer_to("j1")["type"])
      @init.terminate
      assert_equal(0, wait_for(pid).exitstatus)
    ensure
      kill(pid)
    end
  end

  def test_a_hook_that_ends_its_thread_costs_no_answer
    worker = new_worker
    worker.on_failed { Thread.exit }
    worker.job("t") { raise OjsWorker::Discard, "never" }
    start(worker)
    @init.greet
    2.times { |n| assert_equal(["never", false], @init.answer_to("j#{n}")["error"].values_at("message", "retryable")) }
  end

  def test_a_forked_child_leaves_the_connection_alone
    serve do |job|
      reader, writer = IO.pipe
      pid = fork do
        job.progress(0.5)
      rescue OjsWorker::Cancelled
        writer.write("refused")
        exit!(0)
      end
      Process.wait(pid)
      writer.close
      reader.read
    end
    assert_equal("refused", @init.answer_to("j1")["result"])
    assert_equal("refused", @init.answer_to("j2")["result"])
  end

  def test_frames_that_it_does_not_know_or_cannot_read_are_ignored
    serve { "ok" }
    @init.write(%({"type":"news"}\nnonsense\n[]\n))
    @init.write(%({"type":"job","job_id":"deep","job":{"id":"deep","type":"t","args":#{"[" * 500}#{"]" * 500}}}\n))
    assert_equal(%w[deep invalid_job], @init.answer.then { |fail| [fail["job_id"], fail["error"]["code"]] })
    assert_equal("ok", @init.answer_to("j1")["result"])
    refute_includes(@log.string, "nonsense")
  end

  def test_output_waits_for_room_while_input_is_read
    serve { |job| job.args[0] || ("x" * 3_000_000) }
    @init.send_frame(job_frame("large"))
    @init.send_frame(job_frame("small", "t", "y"))
    @init.send_frame({ type: "ping", id: 1 })
    answers = Array.new(3) { @init.next_frame }
    assert_equal(%w[ack ack pong], answers.map { |frame| frame["type"] }.sort)
    assert_equal([3_000_000, 1], answers.filter_map { |frame| frame["result"]&.size }.sort.reverse)
  end

  def test_an_interrupt_that_comes_late_costs_no_answer
    serve(concurrency: 1) do |job|
      thread = Thread.current
      Thread.new { sleep(rand * 0.0006) && thread.alive? && thread.raise(Timeout::Error, "late") }
      (job.args[0] * 20).times { Object.new }
      nil
    end
    500.times { |number| assert_includes(%w[ack fail], @init.answer_to("j#{number}", "t", number)["type"]) }
  end

  def test_without_a_thread_a_job_goes_back_and_with_one_it_waits_for_that
    go = Thread::Queue.new
    _, thread = serve { |job| job.args[0] && go.pop }
    without_new_threads { assert_equal("no thread can be started", @init.answer_to("j1")["reason"]) }
    @init.send_frame(job_frame("j2", "t", true))
    wait_until { go.num_waiting == 1 }
    without_new_threads do
      @init.send_frame(job_frame("j3"))
      sync
    end
    go << "done"
    assert_equal([["j2", "done"], ["j3", nil]], Array.new(2) { @init.answer.values_at("job_id", "result") })
    assert_match(/ERROR.*can't create Thread.*there are 1 threads for jobs/, @log.string)
    assert_predicate(thread, :alive?)
  end

  def test_threads_are_used_again_and_see_nothing_of_the_job_before
    serve do
      before = Thread.current[:mine]
      Thread.current[:mine] = 1
      [before, Thread.current.object_id]
    end
    threads = Array.new(20) { |n| @init.answer_to("j#{n}")["result"] }
    assert_equal([nil], threads.map(&:first).uniq)
    assert_operator(threads.map(&:last).uniq.size, :<=, 10)
  end

  private

  # As with a limit of processes that is reached.
  def without_new_threads(&block)
    Thread.stub(:new, ->(*) { raise ThreadError, "can't create Thread: Resource temporarily unavailable" }, &block)
  end
end
