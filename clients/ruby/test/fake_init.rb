# frozen_string_literal: true

# The other end of the socket: an ojs-init that does what a test says.

$LOAD_PATH.unshift(File.expand_path("../lib", __dir__))
require "json"
require "logger"
ENV["MT_NO_PLUGINS"] = "1" # Those of Rails load half of Rails.
require "minitest/autorun"
require "minitest/mock"
require "socket"
require "stringio"
require "timeout"
require "tmpdir"
require "ojs_worker"

# Seconds after which a test gives up. Nothing waits for so long when all is well.
PATIENCE = 30.0

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

def wait_until(what = "condition")
  deadline = now + PATIENCE
  loop do
    value = yield
    return value if value
    raise "not within #{PATIENCE} s: #{what}" if now > deadline
    sleep(0.005)
  end
end

# The next thing of a queue that another thread fills.
def take(queue)
  wait_until("something from another thread") { !queue.empty? }
  queue.pop
end

def job_frame(id, type = "t", *args, **more)
  checkpoint = more.delete(:checkpoint)
  frame = { type: "job", job: { id: id, type: type, queue: "default", attempt: 1, args: args, **more } }
  frame[:checkpoint] = checkpoint unless checkpoint.nil?
  frame
end

# Listens, and takes one connection.
class FakeInit
  attr_reader :path

  def initialize
    @folder = Dir.mktmpdir("ojs-ruby-", "/tmp")
    @path = File.join(@folder, "s")
    @listener = UNIXServer.new(@path)
    @buffer = String.new
  end

  def accept(**hello)
    raise "nobody connects" unless @listener.wait_readable(PATIENCE)
    @sock = @listener.accept
    send_frame({ type: "hello", protocol: 1, worker_id: "w1", state: "running", concurrency: 10, queues: ["default"],
                 max_frame: 4_194_304, **hello })
    self
  end

  # Hello, and what the worker says to it.
  def greet(**hello)
    accept(**hello)
    expect("ready")
  end

  def send_frame(frame)
    write("#{frame.is_a?(String) ? frame : JSON.generate(frame)}\n")
  end

  def write(text)
    @sock.write(text)
  end

  # The next frame; nil at the end of the connection. A heartbeat for no job is answered.
  def next_frame(seconds = PATIENCE)
    line = next_line(seconds)
    frame = line && JSON.parse(line)
    return frame unless frame && frame.values_at("type", "job_id") == %w[heartbeat ojs-worker-stop]
    send_frame({ type: "error", code: "not_held", message: "no", job_id: frame["job_id"] })
    next_frame(seconds)
  end

  def next_line(seconds = PATIENCE)
    deadline = now + seconds
    until (stop = @buffer.index("\n"))
      left = deadline - now
      raise "no frame within #{seconds} s" if left <= 0 || !@sock.wait_readable(left)
      chunk = @sock.read_nonblock(65_536, exception: false)
      return nil if chunk.nil?
      @buffer << chunk unless chunk == :wait_readable
    end
    @buffer.slice!(0..stop)
  rescue Errno::ECONNRESET
    nil
  end

  def expect(type)
    frame = next_frame
    raise "expected #{type}, got #{frame.inspect}" unless frame && frame["type"] == type
    frame
  end

  # Gives a job and returns its answer, progress and the like left out.
  def answer_to(*job, **more)
    send_frame(job_frame(*job, **more))
    answer
  end

  def answer
    loop do
      frame = next_frame
      return frame if frame.nil? || %w[ack fail release].include?(frame["type"])
    end
  end

  def terminate(remaining_ms = 25_000)
    send_frame({ type: "lifecycle", state: "terminate", reason: "sigterm", remaining_ms: remaining_ms })
  end

  def close
    @sock&.close
  end

  def clean_up
    close
    @listener.close
    FileUtils.remove_entry(@folder)
  end
end

# A test with an ojs-init, and a worker on a thread of this process.
class WorkerTest < Minitest::Test
  def setup
    @init = FakeInit.new
    @log = StringIO.new
    OjsWorker.logger = Logger.new(@log)
    @threads = []
  end

  def teardown
    @init.clean_up
    @threads.each { |thread| thread.join(PATIENCE) || flunk("the worker still runs") }
    OjsWorker.logger = nil
  end

  def new_worker(**options)
    OjsWorker::Worker.new(socket_path: @init.path, **options)
  end

  # Runs it on a thread, whose value is what it ends with.
  def start(worker)
    thread = Thread.new do
      worker.run
      :ended
    rescue Exception => e # rubocop:disable Lint/RescueException
      e
    end
    @threads << thread
    thread
  end

  # A worker with this one handler of the type "t", greeted.
  def serve(**options, &handler)
    worker = new_worker(**options)
    worker.job("t", &handler)
    thread = start(worker)
    @init.greet
    [worker, thread]
  end

  # Until the worker has read what was sent, and its handlers run.
  def sync
    @init.send_frame({ type: "ping", id: 99 })
    @init.expect("pong")
  end

  # A program in a process of its own, with the library loaded and OJS_SOCKET set.
  def spawn_program(source, *words, **options)
    lib = File.expand_path("../lib", __dir__)
    program = ["ruby", "-I", lib, "-r", "ojs_worker", "-e", source, "--", *words]
    Process.spawn({ "OJS_SOCKET" => @init.path }, *program, **options)
  end

  # Ends a program that a test has left running.
  def kill(pid)
    Process.kill("KILL", pid)
    Process.wait(pid)
  rescue Errno::ESRCH, Errno::ECHILD
    nil # It has ended and was waited for.
  end

  # @return [Process::Status]
  def wait_for(pid)
    wait_until("the end of process #{pid}") { Process.wait2(pid, Process::WNOHANG) }.last
  end
end
