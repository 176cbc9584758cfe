# frozen_string_literal: true

require_relative "fake_init"

# Registration, options, fields, cancel and the end.
class TestWorker < WorkerTest
  def test_concurrency_is_what_hello_says_and_a_smaller_option_wins
    worker = new_worker
    worker.job("t") { nil }
    start(worker)
    assert_equal(7, @init.greet(concurrency: 7)["concurrency"])
    assert_equal(7, worker.concurrency)
  end

  def test_an_option_for_concurrency_is_what_ready_says
    worker = new_worker(concurrency: 3)
    worker.job("t") { nil }
    start(worker)
    assert_equal(3, @init.greet["concurrency"])
  end

  def test_unknown_options_are_named_with_the_known_ones
    error = assert_raises(ArgumentError) { OjsWorker::Worker.new(concurency: 3) }
    assert_includes(error.message, ":concurency")
    assert_includes(error.message, "stop_grace")
  end

  def test_bad_values_of_options_are_errors
    [0, 1.5, "3", 10_001].each { |n| assert_raises(ArgumentError) { OjsWorker::Worker.new(concurrency: n) } }
    assert_raises(ArgumentError) { OjsWorker::Worker.new(stop_grace: -1) }
  end

  def test_bad_registrations_are_errors
    worker = new_worker
    worker.job("t") { nil }
    assert_raises(ArgumentError) { worker.job("t") { nil } }
    assert_raises(ArgumentError) { worker.job(:symbol) { nil } }
    assert_raises(ArgumentError) { worker.job("") { nil } }
    assert_raises(ArgumentError) { worker.job("u") }
    assert_raises(ArgumentError) { worker.job("u", handler: 5) }
    takes_two = Class.new { def call(job, to); end }.new
    takes_none = Class.new { def call; end }.new
    [proc { |_job, _to| nil }, ->(_job, _to) { nil }, -> { nil }, ->(_job, to:) { to }, takes_two, takes_none].each do |handler|
      error = assert_raises(ArgumentError) { worker.job("u", handler: handler) }
      assert_match(/\{ \|job\| \.\.\. \}.*job\.args/, error.message)
    end
    [proc { nil }, proc { |_job, _more = 1| nil }, ->(_job, *_more) { nil }, :args.to_proc].each_with_index do |handler, number|
      worker.job("fits#{number}", handler: handler)
    end
    assert_raises(ArgumentError) { worker.middleware { |_job, _next| nil } }
  end

  def test_without_ojs_socket_it_says_how_to_start_it
    worker = OjsWorker::Worker.new(socket_path: "")
    worker.job("t") { nil }
    error = assert_raises(OjsWorker::NotUnderOjsInit) { worker.run }
    assert_includes(error.message, "ojs-init -- ruby")
  end

  def test_a_job_has_its_fields
    seen = Thread::Queue.new
    serve do |job|
      seen << job
      job.raw
    end
    text = '{"id":"j1", "type":"t","queue":"mail","attempt":2,"args":[1.50],"meta":{"a":"b"},"timeout_ms":2000,"x":{"job":{}}}'
    before = Time.now
    @init.send_frame(%({"type":"job","checkpoint":{"page":3},"job": #{text} }))
    assert_equal(text, @init.answer["result"])
    job = take(seen)
    assert_equal(["j1", "t", "mail", 2, [1.5], { "a" => "b" }, { "page" => 3 }],
                 [job.id, job.type, job.queue, job.attempt, job.args, job.meta, job.last_checkpoint])
    assert_in_delta(before.to_f + 2, job.deadline.to_f, 1)
  end

  def test_a_timeout_in_seconds_is_a_deadline_and_none_is_none
    serve { |job| job.deadline && (job.deadline - Time.now).round }
    assert_equal(9, @init.answer_to("j1", timeout: 9)["result"])
    assert_nil(@init.answer_to("j2")["result"])
  end

  def test_middleware_runs_outermost_first_and_may_change_the_result
    worker = new_worker
    worker.job("t") { |job| job.context[:names] }
    %w[outer inner].each do |name|
      worker.middleware { |job, &handler| ((job.context[:names] ||= []) << name) && (handler.call + ["#{name} was here"]) }
    end
    start(worker)
    @init.greet
    2.times do |n|
      assert_equal(["outer", "inner", "inner was here", "outer was here"], @init.answer_to("j#{n}")["result"])
    end
  end

  def test_middleware_may_be_an_object_that_yields_and_may_raise
    guard = Object.new
    def guard.call(job)
      raise OjsWorker::Discard, "blocked" if job.args == ["bad"]
      yield
    end
    worker = new_worker
    worker.job("t") { 1 }
    worker.middleware(guard)
    start(worker)
    @init.greet
    assert_equal(1, @init.answer_to("j1")["result"])
    assert_equal("blocked", @init.answer_to("j2", "t", "bad")["error"]["message"])
  end

  def test_cancel_reaches_the_handler_with_its_reason
    serve do |job|
      job.wait_cancelled
      job.raise_if_cancelled
    end
    { "shutdown" => "release", "cancelled" => "release", "lost" => "release" }.each do |reason, kind|
      @init.send_frame(job_frame("j1"))
      @init.send_frame({ type: "cancel", job_id: "j1", reason: reason, grace_ms: 1000 })
      assert_equal([kind, reason], @init.answer.values_at("type", "reason"))
    end
  end

  def test_a_job_cancelled_for_its_timeout_fails_with_code_timeout
    started = Thread::Queue.new
    serve do |job|
      started << 1
      job.wait_cancelled
      job.raise_if_cancelled
    end
    @init.send_frame(job_frame("j1"))
    take(started)
    @init.send_frame({ type: "cancel", job_id: "j1", reason: "timeout", grace_ms: 1000 })
    assert_equal(["timeout", true], @init.answer["error"].values_at("code", "retryable"))
  end

  def test_stopping_is_seen_by_a_handler_that_waits_and_the_job_may_go_on
    started = Thread::Queue.new
    _, thread = serve do |job|
      started << job.stopping?
      job.wait_stopping
      [job.stopping?, job.cancelled?, job.remaining.between?(1, 25)]
    end
    @init.send_frame(job_frame("j1"))
    assert_equal(false, take(started))
    @init.terminate
    assert_equal([true, false, true], @init.answer["result"])
    assert_equal(:ended, thread.value)
  end

  def test_a_closed_connection_cancels_as_lost_and_the_worker_ends_with_an_error
    reason = nil
    started = Thread::Queue.new
    _, thread = serve do |job|
      started << 1
      job.wait_cancelled
      reason = job.cancel_reason
    end
    @init.send_frame(job_frame("j1"))
    take(started)
    @init.close
    assert_kind_of(OjsWorker::ConnectionLost, thread.value)
    assert_equal("lost", reason)
  end

  def test_nothing_can_be_said_about_a_job_that_is_answered
    jobs = Thread::Queue.new
    serve { |job| jobs << job && nil }
    @init.answer_to("j1")
    assert_raises(OjsWorker::Error) { take(jobs).checkpoint(1) }
  end

  def test_stop_finishes_what_is_held
    release = Thread::Queue.new
    worker, thread = serve { release.pop }
    @init.send_frame(job_frame("j1"))
    worker.stop
    assert_equal(0, @init.expect("ready")["concurrency"])
    release << 5
    assert_equal(5, @init.answer["result"])
    assert_equal(:ended, thread.value)
  end

  # A worker whose question how far ojs-init has read comes to the test, and that waits so long for the answer.
  def serve_and_stop(seconds)
    worker, thread = serve { 1 }
    @init.answers_questions = false
    worker.instance_variable_get(:@session).define_singleton_method(:settle_time) { seconds }
    worker.stop
    assert_equal(0, @init.expect("ready")["concurrency"])
    [thread, @init.expect("heartbeat")["job_id"]]
  end

  def test_after_a_stop_a_job_that_was_on_its_way_is_given_back_however_slow_ojs_init_is
    thread, question = serve_and_stop(10 * PATIENCE)
    @init.send_frame(job_frame("j1"))
    assert_equal("release", @init.next_frame["type"])
    assert(thread.alive?)
    @init.say_not_held(question)
    assert_equal(:ended, thread.value)
  end

  def test_a_stop_does_not_wait_for_ever_for_what_ojs_init_says
    thread, = serve_and_stop(0.05)
    assert_equal(:ended, thread.value)
  end

  def test_terminate_ends_a_stop_that_waits
    thread, = serve_and_stop(10 * PATIENCE)
    @init.terminate
    assert_equal(:ended, thread.value)
  end

  def test_nothing_that_a_job_leaves_at_its_thread_is_seen_by_the_next
    serve do |job|
      thread = Thread.current
      seen = [thread[:tenant], thread.thread_variable_get(:tenant)]
      seen << Fiber[:tenant] if Fiber.respond_to?(:[])
      thread[:tenant] = job.id
      thread.thread_variable_set(:tenant, job.id)
      Fiber[:tenant] = job.id if Fiber.respond_to?(:[])
      [thread.name, seen.compact]
    end
    names = Array.new(3) { |n| @init.answer_to("j#{n}")["result"] }
    assert_equal([["ojs-job-1", []]], names.uniq)
  end

  def test_a_handler_that_waits_for_its_checkpoint_hears_at_once_that_the_connection_is_closed
    waiting = Thread::Queue.new
    raised = Thread::Queue.new
    serve do |job|
      link = job.instance_variable_get(:@session).link
      link.define_singleton_method(:wait) { |*more| (waiting << Thread.current) && super(*more) }
      job.checkpoint("x" * 3_000_000) # nobody reads so much
    rescue OjsWorker::ConnectionLost
      raised << now
      raise
    end
    @init.send_frame(job_frame("j1"))
    thread = take(waiting)
    wait_until("its wait") { thread.status == "sleep" }
    closed_at = now
    @init.close
    assert_operator(take(raised) - closed_at, :<, OjsWorker::Session::EOF_GRACE / 2)
  end

  def test_a_frame_that_nobody_reads_is_withdrawn_for_all_who_wait_for_it
    link = OjsWorker::Link.new
    link.connect(@init.path)
    link.post("x" * 3_000_000)
    item = link.post("y")
    waiting = Array.new(2) { Thread.new { link.wait(item, 0.05) } }
    assert_equal([false, false], waiting.map(&:value))
  ensure
    link.close
  end

  def test_a_job_with_a_name_that_could_not_be_sent_back_fails
    serve { 1 }
    @init.send_frame('{"type":"job","job":{"\ud800":1,"id":"j1","type":"t"}}')
    assert_equal(["j1", "invalid_job"], @init.answer.then { |answer| [answer["job_id"], answer["error"]["code"]] })
  end

  def test_where_hello_says_less_than_the_option_hello_counts
    worker = new_worker(concurrency: 3)
    worker.job("t") { nil }
    start(worker)
    assert_equal(2, @init.greet(concurrency: 2)["concurrency"])
    assert_equal(2, worker.concurrency)
  end

  def test_progress_is_from_0_to_1_whatever_is_said_and_no_number_is_an_error
    serve do |job|
      [-1, 0, 1.0000000000000002, Float::INFINITY].each { |fraction| job.progress(fraction) }
      [Float::NAN, "1", nil, Complex(1, 1)].each { |fraction| assert_raises(ArgumentError) { job.progress(fraction) } }
      nil
    end
    @init.send_frame(job_frame("j1"))
    assert_equal([0, 0, 1, 1], Array.new(4) { @init.expect("progress")["progress"] })
    assert_equal("ack", @init.answer["type"])
  end

  def test_a_job_without_a_type_is_one_without_a_handler
    serve { 1 }
    @init.send_frame({ type: "job", job: { id: "j1" } })
    assert_equal(["handler_not_found", true], @init.answer["error"].values_at("code", "retryable"))
  end

  def test_a_job_that_comes_again_while_the_worker_ends_is_answered_once_by_the_handler_that_has_it
    begun = Thread::Queue.new
    release = Thread::Queue.new
    worker, = serve do
      begun << true
      release.pop
    end
    @init.send_frame(job_frame("j1"))
    take(begun)
    worker.stop
    assert_equal(0, @init.expect("ready")["concurrency"])
    @init.send_frame(job_frame("j1"))
    @init.send_frame({ type: "ping", id: 9 })
    assert_equal("pong", @init.next_frame["type"], "what came before the ping has no answer")
    release << 5
    assert_equal(5, @init.answer["result"])
  end

  def test_a_job_with_an_id_that_could_not_be_sent_back_is_ignored
    serve { 1 }
    @init.send_frame('{"type":"job","job":{"id":"\\ud800","type":"t"}}')
    assert_equal("j2", @init.answer_to("j2")["job_id"])
    refute_empty(@log.string)
  end

  def test_a_frame_that_cannot_be_read_fails_its_job_and_is_not_quoted
    serve { 1 }
    secret = "#{"[" * 1000}\"secret\"#{"]" * 1000}"
    @init.send_frame(%({"type":"job","job":{"id":"j1","type":"t","args":#{secret}}}))
    assert_equal(["invalid_job", false], @init.answer["error"].values_at("code", "retryable"))
    refute_includes(@log.string, "secret")
    assert_equal(1, @init.answer_to("j2")["result"])
  end

  def test_while_ojs_init_does_not_read_a_cancel_and_pings_are_noticed_and_every_frame_comes_whole
    reasons = Thread::Queue.new
    begun = Thread::Queue.new
    serve(concurrency: 2) do |job|
      begun << job
      20.times { job.progress(0.5, nil, data: "x" * 100_000) } if job.args[0]
      job.wait_cancelled
      reasons << job.cancel_reason
      job.cancel_reason
    end
    @init.send_frame(job_frame("j1", "t", true))
    @init.send_frame(job_frame("j2"))
    wait_until("both handlers run") { begun.size == 2 }
    @init.send_frame({ type: "cancel", job_id: "j2", reason: "cancelled", grace_ms: 1000 })
    @init.send_frame({ type: "ping", id: 7 })
    wait_until("the cancel is noticed") { reasons.size == 1 } # nothing was read until now
    frames = []
    frames << @init.next_frame until frames.count { |frame| frame["type"] == "progress" } == 20
    assert(frames.all? { |frame| frame["type"] != "progress" || frame["data"].size == 100_000 })
    assert_includes(frames, { "type" => "pong", "id" => 7 })
    assert_includes(frames.map { |frame| frame["job_id"] }, "j2")
    @init.send_frame({ type: "cancel", job_id: "j1", reason: "lost", grace_ms: 1000 })
    assert_equal("lost", @init.answer["result"])
  end

  def test_a_frame_that_is_not_read_in_time_is_withdrawn_and_the_handler_told
    link = OjsWorker::Link.new
    left, right = UNIXSocket.pair
    link.instance_variable_set(:@sock, left)
    link.post("x" * 1_000_000) # more than a socket takes
    waiting = link.post("second\n")
    refute(link.wait(waiting, 0.05))
    read = +""
    until link.flushed?
      read << right.read_nonblock(1_000_000, exception: false).then { |chunk| chunk.is_a?(String) ? chunk : "" }
      link.round(0.01)
    end
    read << right.read_nonblock(1_000_000, exception: false).then { |chunk| chunk.is_a?(String) ? chunk : "" }
    assert_equal("x" * 1_000_000, read)
  ensure
    [link, right].compact.each(&:close)
  end

  def test_a_thread_that_a_handler_kills_leaves_waiting_jobs_to_another_one
    serve(concurrency: 1) { |job| job.args[0] ? Thread.current.kill : 1 }
    5.times do |n|
      assert_equal("fail", @init.answer_to("k#{n}", "t", true)["type"])
      assert_equal(1, @init.answer_to("j#{n}")["result"])
    end
  end

  def test_a_stop_grace_that_is_no_time_is_found_at_once
    [-1, "2", Float::INFINITY, Float::NAN, 1i, 30 * 86_400].each do |grace|
      error = assert_raises(ArgumentError, grace.inspect) { OjsWorker::Worker.new(stop_grace: grace) }
      assert_includes(error.message, "stop_grace is a number of seconds up to 86400, or nil")
    end
  end
end
