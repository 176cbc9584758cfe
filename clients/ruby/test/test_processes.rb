# frozen_string_literal: true

require_relative "many_init"

# Several processes, and their replacement.
class TestProcesses < Minitest::Test
  def setup
    @programs = []
  end

  def teardown
    @programs.each do |pid|
      Process.kill("KILL", pid)
      Process.wait(pid)
    rescue SystemCallError
      nil
    end
    @init&.clean_up
  end

  # A program whose handler notes each job that it does in a file.
  def start(options, concurrency: 4, handler: "File.write(NOTES, job.id + ' ' + Process.pid.to_s + %(\\n), mode: 'a'); nil", err: File::NULL, before: "")
    @notes = File.join(File.dirname(@init.path), "notes")
    source = <<~RUBY
      NOTES = #{@notes.inspect}
      worker = OjsWorker::Worker.new
      worker.job("t") { |job| #{handler} }
      #{before}
      worker.run(#{options})
    RUBY
    lib = File.expand_path("../lib", __dir__)
    environment = { "OJS_SOCKET" => @init.path, "OJS_CONCURRENCY" => concurrency.to_s }
    pid = Process.spawn(environment, "ruby", "-I", lib, "-r", "ojs_worker", "-e", source, err: err)
    @programs << pid
    pid
  end

  def status_of(pid)
    status = nil
    @init.work("the end of the program") { status ||= Process.wait2(pid, Process::WNOHANG)&.last }
    @programs.delete(pid)
    status.termsig ? 128 + status.termsig : status.exitstatus
  end

  def notes
    File.exist?(@notes) ? File.readlines(@notes, chomp: true).map(&:split) : []
  end

  def test_shares_differ_by_at_most_one_and_none_is_0
    assert_equal([3, 3, 2, 2], OjsWorker::Processes.shares(10, 4))
    assert_equal([1, 1], OjsWorker::Processes.shares(2, 4))
  end

  def test_each_process_takes_its_share_and_terminate_ends_all_with_0
    @init = ManyInit.new
    pid = start("processes: 3", concurrency: 7)
    @init.work("three connections that are ready") { @init.ready_sizes.size == 3 }
    assert_equal([2, 2, 3], @init.ready_sizes.sort)
    assert_equal(3, @init.connections.map(&:pid).uniq.size)
    @init.terminate
    assert_equal(0, status_of(pid))
  end

  def test_a_dead_process_is_replaced_and_the_parent_passes_sigterm_on
    @init = ManyInit.new
    pid = start("processes: 2")
    @init.work("two connections") { @init.capacity == 4 }
    first = @init.connections[0].pid
    Process.kill("KILL", first)
    @init.work("a replacement") { @init.capacity == 4 && @init.connections.none? { |c| c.pid == first } }
    Process.kill("TERM", pid)
    assert_equal(0, status_of(pid))
    assert_empty(@init.connections)
  end

  def test_stop_in_the_parent_lets_all_finish_what_they_hold
    @init = ManyInit.new(jobs: 2)
    pid = start("processes: 2", concurrency: 2, before: 'trap("USR1") { worker.stop }', handler: "job.heartbeat; sleep(0.3); job.id")
    @init.work("both jobs run") { @init.heartbeats == 2 }
    Process.kill("USR1", pid)
    assert_equal(0, status_of(pid))
    assert_equal([2, 0, 0], [@init.acked.size, @init.released, @init.lost.size])
  end

  def test_the_worst_status_is_the_parent_s
    @init = ManyInit.new(jobs: 1)
    pid = start("processes: 2", handler: "File.write(NOTES, job.id); sleep")
    @init.work("the job runs") { File.exist?(@notes) && @init.capacity == 4 }
    Process.kill("TERM", pid)
    assert_equal(143, status_of(pid))
  end

  def test_processes_that_die_young_again_and_again_are_replaced_after_a_growing_pause
    @init = ManyInit.new
    started = now
    start("processes: 1", concurrency: 1, handler: "exit!(3)")
    6.times do |n|
      @init.add("j#{n}")
      @init.work("a death") { @init.lost.size == n + 1 }
    end
    # 0 + 0.1 + 0.2 + 0.4 + 0.8 s
    assert_operator(now - started, :>=, 1.5)
    assert_equal(1, @init.most_processes)
  end

  def test_with_few_jobs_a_process_none_is_lost_or_doubled_and_capacity_stays
    @init = ManyInit.new(jobs: 1500)
    pid = start("processes: 2, max_jobs: 1")
    @init.work("two processes are ready") { @init.capacity >= 4 }
    least = 4
    @init.work("all jobs are done, by five processes at least") do
      least = [least, @init.capacity].min
      @init.add(*Array.new(50) { |n| "more#{@init.acked.size + n}" }) if @init.acked.size % 50 == 0 && @init.idle?
      @init.acked.size >= 1500 && notes.map(&:last).uniq.size >= 5
    end
    @init.work("the last jobs") { @init.idle? }
    @init.terminate
    assert_equal(0, status_of(pid))
    assert(@init.acked.values.all?(1))
    assert_equal(notes.map(&:first).uniq.size, notes.size)
    assert_empty(@init.lost)
    assert_equal(0, @init.released)
    assert_operator(least, :>=, 2) # n - 1 processes at least
    assert_operator(@init.most_processes, :<=, 3)
  end

  def test_the_new_one_is_ready_before_the_old_one_stops
    @init = ManyInit.new(jobs: 1)
    start("processes: 1, max_jobs: 1", concurrency: 3)
    capacities = []
    @init.work("a second process") do
      capacities << @init.capacity if capacities.any? || @init.capacity.positive?
      @init.ready_sizes.count(3) == 2 && @init.connections.size == 1
    end
    assert_operator(capacities.min, :>=, 3)
  end

  def test_max_age_replaces_a_process_that_idles
    @init = ManyInit.new
    start("processes: 1, max_age: 0.3", concurrency: 1)
    @init.work("a second process") { @init.ready_sizes.count(1) >= 2 }
    assert_operator(@init.most_processes, :<=, 2)
  end

  def test_max_memory_replaces_a_process_that_has_grown
    @init = ManyInit.new(jobs: 40)
    start("processes: 1, max_memory: 150_000_000", concurrency: 1,
          handler: "($kept ||= []) << ('x' * 8_000_000) if !$kept || $kept.size < 20; File.write(NOTES, %(\#{job.id} \#{Process.pid}\\n), mode: 'a'); nil")
    @init.work("a second process") do
      @init.add("n#{@init.acked.size}") if @init.acked.size >= 40
      notes.map(&:last).uniq.size >= 2
    end
  end

  def test_a_process_over_max_memory_from_the_start_is_one_warning_and_no_loop
    @init = ManyInit.new(jobs: 30)
    reader, writer = IO.pipe
    pid = start("processes: 2, max_memory: 1_000_000", err: writer)
    writer.close
    @init.work("all jobs") { @init.acked.size == 30 }
    @init.terminate
    assert_equal(0, status_of(pid))
    warnings = reader.readlines.grep(/bytes of memory/)
    assert_equal(1, warnings.size)
    assert_match(/has \d+ bytes of memory, and max_memory is 1000000/, warnings[0])
    assert_operator(notes.map(&:last).uniq.size, :<=, 2)
  end

  def test_a_closed_ojs_init_ends_all
    @init = ManyInit.new
    pid = start("processes: 2")
    @init.work("two connections") { @init.capacity == 4 }
    @init.clean_up
    status = wait_until("the end") { Process.wait2(pid, Process::WNOHANG) }.last
    @init = nil
    refute_equal(0, status.exitstatus)
  end

  def test_a_closed_connection_of_one_process_ends_that_one_alone
    @init = ManyInit.new(jobs: 1)
    start("processes: 2", concurrency: 2, handler: "job.heartbeat; sleep(0.01) until File.exist?(NOTES); job.id")
    @init.work("a job runs, and two processes") { @init.heartbeats == 1 && @init.capacity == 2 }
    busy, closed = @init.connections.partition { |c| c.held.any? }.map(&:first)
    @init.cut(closed)
    @init.work("a replacement") { @init.capacity == 2 && @init.connections.none? { |c| c.pid == closed.pid } }
    File.write(@notes, "go")
    @init.work("the job is done") { @init.acked.any? }
    assert_includes(@init.connections.map(&:pid), busy.pid)
  end

  def test_a_fork_that_fails_is_tried_again_and_the_others_go_on
    @init = ManyInit.new
    fails = "$n = 0; Process.singleton_class.prepend(Module.new { def _fork; raise(Errno::EAGAIN, 'fork(2)') if ($n += 1) == 2; super; end })"
    reader, writer = IO.pipe
    start("processes: 2", concurrency: 2, before: fails, err: writer)
    writer.close
    @init.work("two processes") { @init.capacity == 2 }
    assert_match(/cannot be forked.*Resource temporarily unavailable/, reader.gets)
  end

  def test_a_replacement_that_cannot_be_forked_is_tried_again
    @init = ManyInit.new
    fails = "$n = 0; Process.singleton_class.prepend(Module.new { def _fork; raise(Errno::EAGAIN, 'fork(2)') if ($n += 1) == 2; super; end })"
    start("processes: 1, max_age: 0.1", concurrency: 1, before: fails)
    @init.work("a second process") { @init.ready_sizes.count(1) >= 2 }
  end

  def test_names_of_types_that_are_too_long_end_the_program
    @init = ManyInit.new
    pid = start("processes: 2", before: "4500.times { |n| worker.job('x' * 1000 + n.to_s) { nil } }")
    refute_equal(0, status_of(pid))
  end

  def test_bad_options_are_errors
    worker = OjsWorker::Worker.new(socket_path: "/nowhere")
    worker.job("t") { nil }
    assert_raises(ArgumentError) { worker.run(processes: 0) }
    assert_raises(ArgumentError) { worker.run(max_jobs: 5) }
    assert_raises(ArgumentError) { worker.run(processes: 2, max_age: -1) }
    assert_includes(assert_raises(ArgumentError) { worker.run(proceses: 2) }.message, "max_memory")
    assert_raises(ArgumentError) { OjsWorker::Processes.offered("many") }
  end

  def test_a_child_forked_by_a_handler_has_default_signals_in_processes_too
    @init = ManyInit.new(jobs: 1)
    start("processes: 1", concurrency: 1,
          handler: "child = fork { Process.kill('TERM', Process.pid); sleep }; File.write(NOTES, Process.wait2(child)[1].termsig.to_s)")
    @init.work("the job") { @init.acked.any? || @init.lost.any? }
    assert_equal("15", File.read(@notes))
  end
end
