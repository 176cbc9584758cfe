# frozen_string_literal: true

require_relative "fake_init"

# What is seen from outside of the process: its status, signals, forks.
class TestProcess < WorkerTest
  WORKER = <<~RUBY
    worker = OjsWorker::Worker.new
    worker.job("t") { |job| eval(job.args[0]) }
    worker.run
    at_exit { Process.kill("TERM", $$) }
  RUBY

  def test_after_terminate_it_ends_with_0_and_a_late_sigterm_is_ignored
    pid = spawn_program(WORKER)
    @init.greet
    @init.terminate
    assert_equal(0, wait_for(pid).exitstatus)
  end

  def test_sigterm_before_it_is_connected_ends_it_with_0_even_when_ojs_init_is_gone
    pid = spawn_program(<<~RUBY)
      worker = OjsWorker::Worker.new(socket_path: "/no/such/socket")
      worker.job("t") { nil }
      connect = UNIXSocket.method(:new)
      UNIXSocket.define_singleton_method(:new) { |path| Process.kill("TERM", Process.pid) && sleep(0.05) && connect.call(path) }
      worker.run
    RUBY
    assert_equal(0, wait_for(pid).exitstatus)
  end

  def test_a_sigterm_that_comes_with_the_end_of_the_connection_counts
    pid = spawn_program(<<~RUBY)
      worker = OjsWorker::Worker.new
      worker.job("t") { nil }
      read = OjsWorker::Link.instance_method(:round)
      OjsWorker::Link.define_method(:round) { |t| read.bind_call(self, t).tap { eof? && Process.kill("TERM", Process.pid) && sleep(0.05) } }
      worker.run
    RUBY
    @init.greet
    @init.close
    assert_equal(0, wait_for(pid).exitstatus)
  end

  def test_sigterm_with_a_handler_that_hangs_ends_it_with_143
    pid = spawn_program(WORKER, err: File::NULL)
    @init.greet
    @init.send_frame(job_frame("j1", "t", "job.heartbeat; sleep"))
    @init.expect("heartbeat")
    Process.kill("TERM", pid)
    assert_equal(143, wait_for(pid).exitstatus)
  end

  def test_a_closed_connection_ends_it_with_a_status_that_is_not_0
    pid = spawn_program(WORKER, err: File::NULL)
    @init.greet
    @init.close
    refute_equal(0, wait_for(pid).exitstatus)
  end

  def test_a_child_forked_by_a_handler_has_no_connection_and_default_signals
    pid = spawn_program(WORKER)
    @init.greet
    answer = @init.answer_to("j1", "t", <<~RUBY)
      reader, writer = IO.pipe
      child = fork do
        begin
          job.progress(0.5)
        rescue OjsWorker::ForkedProcess => e
          writer.write(e.class)
          writer.close
        end
        Process.kill("TERM", Process.pid)
        sleep
      end
      writer.close
      [reader.read, Process.wait2(child)[1].termsig]
    RUBY
    assert_equal(["OjsWorker::ForkedProcess", 15], answer["result"])
    assert_equal(3, @init.answer_to("j2", "t", "1 + 2")["result"])
    @init.terminate
    assert_equal(0, wait_for(pid).exitstatus)
  end

  def test_a_child_that_comes_back_from_a_handler_answers_nothing
    pid = spawn_program(WORKER)
    @init.greet
    answer = @init.answer_to("j1", "t", "child = fork; child ? Process.wait2(child)[1].exitstatus : :child")
    assert_equal(0, answer["result"])
    @init.terminate
    assert_nil(@init.next_frame)
    assert_equal(0, wait_for(pid).exitstatus)
  end
end
