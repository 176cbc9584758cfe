# frozen_string_literal: true

require_relative "fake_init"

# An ojs-init with many connections: hands out jobs as there is room for them, and keeps the books.
class ManyInit
  Connection = Struct.new(:sock, :buffer, :concurrency, :held, :pid, :was_ready)

  attr_reader :path, :acked, :released, :connections, :most_processes, :ready_sizes

  def initialize(jobs: 0, type: "t", args: [])
    @folder = Dir.mktmpdir("ojs-ruby-", "/tmp")
    @path = File.join(@folder, "s")
    @listener = UNIXServer.new(@path)
    @connections = []
    @waiting = Array.new(jobs) { |n| "j#{n}" }
    @type = type
    @args = args
    @acked = Hash.new(0)
    @released = 0
    @lost = []
    @most_processes = 0
    @state = "running"
    @heartbeats = 0
    @ready_sizes = []
  end

  attr_reader :lost, :heartbeats

  def add(*ids)
    @waiting.concat(ids)
  end

  # Goes on until the block says that it is enough.
  def work(what, seconds = PATIENCE)
    deadline = now + seconds
    until yield
      raise "not within #{seconds} s: #{what}" if now > deadline
      ready, = IO.select([@listener, *@connections.map(&:sock)], nil, nil, 0.05)
      (ready || []).each { |io| io.equal?(@listener) ? accept : read(@connections.find { |c| c.sock.equal?(io) }) }
      hand_out
      @most_processes = [@most_processes, @connections.count(&:was_ready)].max
    end
  end

  # Closes a connection, as after frames that it could not read.
  def cut(connection)
    close(connection)
  end

  # Whether every job is answered.
  def idle?
    @waiting.empty? && @connections.all? { |c| c.held.empty? }
  end

  def capacity
    @connections.sum(&:concurrency)
  end

  def terminate
    @state = "terminate"
    @connections.each { |c| write(c, { type: "lifecycle", state: "terminate", reason: "sigterm", remaining_ms: 20_000 }) }
  end

  def clean_up
    @connections.each { |c| c.sock.close }
    @listener.close
    FileUtils.remove_entry(@folder)
  end

  private

  def accept
    sock = @listener.accept
    pid = sock.getsockopt(Socket::SOL_SOCKET, Socket::SO_PEERCRED).unpack("i3")[0]
    connection = Connection.new(sock, +"", 0, {}, pid, false)
    @connections << connection
    write(connection, { type: "hello", protocol: 1, worker_id: "w", state: @state, concurrency: 10, queues: [], max_frame: 4_194_304 })
  end

  def read(connection)
    chunk = connection.sock.read_nonblock(65_536, exception: false)
    return if chunk == :wait_readable
    return close(connection) if chunk.nil?
    connection.buffer << chunk
    while (line = connection.buffer.slice!(/\A[^\n]*\n/))
      on_frame(connection, JSON.parse(line))
    end
  rescue SystemCallError
    close(connection)
  end

  def close(connection)
    @lost.concat(connection.held.keys)
    connection.sock.close
    @connections.delete(connection)
  end

  def on_frame(connection, frame)
    case frame["type"]
    when "ready"
      connection.concurrency = frame["concurrency"]
      @ready_sizes << frame["concurrency"]
      connection.was_ready = true
    when "heartbeat"
      return say_not_held(connection, frame["job_id"]) unless connection.held.key?(frame["job_id"])
      @heartbeats += 1
    when "ack", "release", "fail"
      raise "not held: #{frame}" unless connection.held.delete(frame["job_id"])
      if frame["type"] == "ack" then @acked[frame["job_id"]] += 1
      elsif frame["type"] == "release"
        @released += 1
        @waiting << frame["job_id"]
      end
    end
  end

  def say_not_held(connection, job_id)
    write(connection, { type: "error", code: "not_held", message: "not held", job_id: job_id })
  end

  def hand_out
    while @waiting.any?
      connection = @connections.max_by { |c| c.concurrency - c.held.size }
      return unless connection && connection.held.size < connection.concurrency
      id = @waiting.shift
      connection.held[id] = true
      write(connection, job_frame(id, @type, *@args))
    end
  end

  def write(connection, frame)
    connection.sock.write("#{JSON.generate(frame)}\n")
  rescue SystemCallError
    nil # its end is read
  end
end
