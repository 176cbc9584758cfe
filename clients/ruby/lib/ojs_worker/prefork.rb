# frozen_string_literal: true

module OjsWorker
  # Forks processes that take jobs, replaces those that die, passes SIGTERM on and ends last.
  #
  # It has a connection of its own, which takes no jobs, to learn when the worker is to end.
  # @api private
  class Prefork
    # Seconds: a process that lived shorter is replaced after a pause.
    YOUNG = 10.0
    # Seconds: the pause doubles with each young death in a row.
    LEAST_PAUSE = 0.1
    MOST_PAUSE = 5.0
    # Seconds between two looks at the processes.
    LOOK_EVERY = 0.1
    # Seconds from the end of the connection to SIGKILL.
    LOST_GRACE = 1.0

    # A process, its share of the concurrency, when it started or is to start, and the last pause.
    Slot = Struct.new(:share, :pid, :start_at, :pause)

    # The worst status of the processes that ended last (128 + N for signal N), and what
    # {Worker} shows of the connection.
    attr_reader :status, :state, :concurrency, :worker_id, :remaining

    # @yield [share] in each process
    def initialize(link, count, asked_concurrency, types, &child)
      @link, @count, @concurrency, @types, @child = link, count, asked_concurrency, types, child
      @slots, @state, @status = [], "running", 0
    end

    # Run until all processes have ended because the worker is to end.
    def run
      @link.on_fork = nil # A process keeps the handlers of signals until it has its own.
      loop do
        @link.eof? ? sleep(LOOK_EVERY) : @link.read(LOOK_EVERY).each { |line| receive(line) }
        @stop_passed ||= kill_all("TERM") if @stop_asked
        kill_all("KILL") if @link.eof? && OjsWorker.now > (@lost_at ||= OjsWorker.now) + LOST_GRACE
        reap
        break if ending? && @slots.none?(&:pid)
        @slots.each { |slot| start(slot) if slot.pid.nil? && OjsWorker.now >= slot.start_at } unless ending?
      end
    ensure
      @link.close unless @link.foreign?
    end

    # Take no more jobs and let all processes end. A signal handler may call it.
    def stop
      @stop_asked = true
      @link.wake
    end

    private

    def ending? = @stop_asked || @state == "terminate" || @link.eof?

    def receive(line)
      frame = Wire.parse(line)
      case frame["type"]
      when "hello" then on_hello(frame)
      when "ping" then @link.post(Wire.frame("pong", id: frame["id"]))
      when "lifecycle" then @state = frame["state"]
      end
    rescue Wire::Unreadable => e
      OjsWorker.log(:warn, "a frame from ojs-init cannot be read: #{e.message}")
    end

    def on_hello(frame)
      raise ProtocolError, "ojs-init does not speak protocol #{PROTOCOL}" if frame["protocol"] != PROTOCOL
      @state, @worker_id = frame.values_at("state", "worker_id")
      @concurrency = [@concurrency, frame["concurrency"]].compact.min || 1
      Wire.ready(@types, @concurrency, frame["max_frame"]) # No process could say it.
      count = [@count, @concurrency].min
      OjsWorker.log(:warn, "#{count} processes instead of #{@count}: one for each job at once") if count < @count
      # The shares differ by at most one.
      @slots = Array.new(count) { |index| Slot.new((@concurrency + index) / count, nil, 0, 0) }
      # What the processes share in memory stays shared if the collector has seen it before.
      Process.respond_to?(:warmup) ? Process.warmup : GC.start
    end

    def kill_all(signal) = @slots.filter_map(&:pid).each { |pid| Process.kill(signal, pid) }

    def start(slot)
      slot.start_at = OjsWorker.now
      slot.pid = fork { @child.call(slot.share) }
    rescue SystemCallError => e
      OjsWorker.log(:error, "a process cannot be forked: #{e.message}")
      slot.start_at = OjsWorker.now + MOST_PAUSE
    end

    def reap
      @slots.select(&:pid).each do |slot|
        _, status = Process.wait2(slot.pid, Process::WNOHANG)
        ended(slot, status) if status
      rescue Errno::ECHILD
        slot.pid = nil # Other code of the program has waited for it.
      end
    end

    def ended(slot, status)
      pid, slot.pid = slot.pid, nil
      code = status.termsig ? 128 + status.termsig : status.exitstatus
      return @status = [@status, code].max if ending?
      is_young = OjsWorker.now < slot.start_at + YOUNG
      slot.pause = is_young ? (slot.pause * 2).clamp(LEAST_PAUSE, MOST_PAUSE) : 0
      slot.start_at = OjsWorker.now + slot.pause
      how = status.termsig ? "by signal #{status.termsig}" : "with status #{code}"
      OjsWorker.log(:error, "process #{pid} ended #{how}; another one starts in #{slot.pause} s")
    end
  end
end
