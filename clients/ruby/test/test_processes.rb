# frozen_string_literal: true

require_relative "fake_init"

# Several processes: each has a connection of its own, and the first one takes no jobs.
class TestProcesses < Minitest::Test
  SOURCE = <<~'RUBY'
    w = OjsWorker::Worker.new
    w.after_fork { $forked = true }
    w.job("t") { |job| job.args[0] == "die" ? exit!(7) : [Process.pid, $forked] }
    w.run(processes: 2)
  RUBY

  def setup
    @folder = Dir.mktmpdir("ojs-ruby-", "/tmp")
    @listener = UNIXServer.new(File.join(@folder, "s"))
    @pid = Process.spawn({ "OJS_SOCKET" => File.join(@folder, "s") }, "ruby", "-I", File.expand_path("../lib", __dir__),
                         "-r", "ojs_worker", "-e", SOURCE, err: File::NULL)
    @first = accept
    @children = [accept, accept]
  end

  def teardown
    Process.kill("KILL", @pid)
    Process.wait(@pid)
  rescue Errno::ESRCH, Errno::ECHILD
    nil # The test has seen its end.
  ensure
    @listener.close
    FileUtils.remove_entry(@folder)
  end

  def test_each_process_takes_its_share_and_runs_what_after_fork_has
    readies = @children.map { |child| read(child) }
    assert_equal([2, 3], readies.map { |ready| ready["concurrency"] }.sort)
    pids = @children.map { |child| result(child, "x") }
    assert_equal([true, true], pids.map(&:last))
    assert_equal(2, (pids.map(&:first) - [@pid]).uniq.size)
    @first.puts(JSON.generate(type: "ping", id: 4))
    assert_equal({ "type" => "pong", "id" => 4 }, read(@first))
  end

  def test_a_process_that_dies_is_replaced
    @children.each { |child| read(child) }
    send_job(@children[0], "die")
    another = accept
    assert_equal("ready", read(another)["type"])
    assert_equal(2, result(another, "x").size)
  end

  def test_sigterm_ends_all_processes_and_the_first_one_last
    @children.each { |child| read(child) }
    Process.kill("TERM", @pid)
    assert_equal([0, 0], @children.map { |child| read(child)["concurrency"] })
    @children.each do |child|
      child.puts(JSON.generate(type: "error", code: "not_held", message: "no", job_id: read(child)["job_id"]))
    end
    assert_equal(0, Process.wait2(@pid)[1].exitstatus)
  end

  def test_terminate_ends_all_processes
    terminate = JSON.generate(type: "lifecycle", state: "terminate", remaining_ms: 9)
    [@first, *@children].each { |each| each.puts(terminate) }
    assert_equal(0, Process.wait2(@pid)[1].exitstatus)
  end

  private

  def accept
    raise "nobody connects" unless @listener.wait_readable(PATIENCE)
    socket = @listener.accept
    socket.puts(JSON.generate(type: "hello", protocol: 1, state: "running", concurrency: 5))
    socket
  end

  def read(socket)
    raise "no frame" unless socket.wait_readable(PATIENCE)
    JSON.parse(socket.gets)
  end

  def send_job(socket, *args)
    socket.puts(JSON.generate(job_frame("j1", "t", *args)))
  end

  def result(socket, *args)
    send_job(socket, *args)
    read(socket)["result"]
  end
end
