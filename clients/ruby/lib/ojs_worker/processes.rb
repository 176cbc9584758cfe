# frozen_string_literal: true

require "socket"

module OjsWorker
  # Keeps several processes at work: what {Worker#run} with `processes` does in the process that forks them.
  # @api private
  class Processes
    # Seconds: a process that lives shorter died young.
    YOUNG = 10.0
    LEAST_PAUSE = 0.1
    MOST_PAUSE = 5.0
    # Seconds between two looks, should a signal about a child be lost.
    LOOK_EVERY = 1.0
    # Seconds until a fork that failed is tried again.
    FORK_PAUSE = 1.0
    SIGNALS = %w[TERM INT].freeze

    # A forked process.
    class Child
      attr_reader :pid, :io, :started_at
      attr_accessor :ready, :worn

      def initialize(pid, io)
        @pid = pid
        @io = io
        @started_at = OjsWorker.now
        @ready = @worn = false
        @rest = +""
      end

      # @return [Array<String>] what it has said
      def words
        loop do
          chunk = @io.read_nonblock(4096, exception: false)
          break unless chunk.is_a?(String)
          @rest << chunk
        end
        whole = @rest.slice!(/\A.*\n/m) || ""
        whole.split("\n")
      rescue SystemCallError, IOError
        []
      end

      def say(word)
        @io.write_nonblock(word, exception: false)
      rescue SystemCallError, IOError
        nil # it has ended
      end
    end

    # A place for one process, with its share of the concurrency. `leaving` finishes its jobs, `coming` will replace it.
    Slot = Struct.new(:share, :child, :coming, :leaving, :deaths, :start_at)

    # @return [Array<Integer>] each process's share: they differ by at most one, and none is 0
    def self.shares(total, count)
      (0...[count, total].min).map { |n| (total / [count, total].min) + (n < total % [count, total].min ? 1 : 0) }
    end

    # @return [Integer] what OJS_CONCURRENCY says, which ojs-init sets for its worker
    def self.offered(text)
      return 10 if text.nil? || text.empty?
      number = Integer(text, 10, exception: false)
      return number if number&.between?(1, MAX_CONCURRENCY)
      raise ArgumentError, "OJS_CONCURRENCY is a whole number from 1 to #{MAX_CONCURRENCY}, not #{text.inspect}"
    end

    # What the signals did before.
    attr_reader :signals_before

    # @yield [share, io] in each child: works, and returns the status to exit with
    def initialize(count, total, max_memory, &child)
      shares = Processes.shares(total, count)
      if shares.size < count
        OjsWorker.log(:warn) { "#{count} processes are more than the jobs at once (#{total}, OJS_CONCURRENCY): #{total} are started" }
      end
      @slots = shares.map { |share| Slot.new(share, nil, nil, nil, 0, 0.0) }
      @max_memory = max_memory
      @run_child = child
      @pid = Process.pid
      @stopping = false
      @worst = 0
      @signals = []
      @warned_of_memory = @finish_asked = false
    end

    # @return [Integer] the worst status of those that ended in the stop; 128 + N for a signal
    def run
      # What survives is old: a small collection in a child leaves it, and its page, alone.
      Process.respond_to?(:warmup) ? Process.warmup : 4.times { GC.start }
      @wake_read, @wake_write = IO.pipe
      with_signals do
        loop do
          pass_signals_on
          finish_if_asked
          start_what_is_due
          break if @stopping && children.empty?
          wait
          listen
          reap
        end
      end
      @worst
    end

    # Let all processes finish what they hold and end. From any thread or signal handler: no lock.
    def finish
      return unless Process.pid == @pid
      @finish_asked = true
      wake if @wake_write
    end

    # In a child: a signal that came before the child had its own handlers.
    def signalled_in_child?
      @pid != Process.pid && @signals.any?
    end

    private

    def children
      @slots.flat_map { |slot| [slot.child, slot.coming, slot.leaving] }.compact
    end

    def with_signals
      before = @signals_before = {}
      SIGNALS.each { |name| before[name] = trap(name) { on_signal(name) } }
      @before_child = trap("CHLD") { wake }
      yield
    ensure
      if Process.pid == @pid
        # The one that ojs-init sends when all is done may still come: the program ends well without it.
        before["TERM"] = "IGNORE" if @stopping && [nil, "DEFAULT"].include?(before["TERM"])
        before.merge("CHLD" => @before_child).each { |name, handler| trap(name, handler || "DEFAULT") }
        [@wake_read, @wake_write].each(&:close)
      end
    end

    # Also in a child that has no handlers of its own yet.
    def on_signal(name)
      @signals << name
      wake if Process.pid == @pid
    end

    def wake
      @wake_write.write_nonblock(".", exception: false)
    rescue IOError, SystemCallError
      nil
    end

    def pass_signals_on
      while (name = @signals.shift)
        stop(name)
      end
    end

    def finish_if_asked
      return if @stopping || !@finish_asked
      stop
      children.each { |child| child.say("go") }
    end

    def stop(signal = nil)
      @stopping = true
      children.each { |child| send_signal(signal, child) } if signal
    end

    def send_signal(signal, child)
      Process.kill(signal, child.pid)
    rescue Errno::ESRCH
      nil # somebody else has waited for it
    end

    def start_what_is_due
      return if @stopping
      @slots.each do |slot|
        next if OjsWorker.now < slot.start_at
        slot.child ||= start(slot)
      end
      # One at a time: never more than one process over their number.
      return if @slots.any? { |slot| slot.coming || slot.leaving }
      slot = @slots.find { |each| each.child&.worn && OjsWorker.now >= each.start_at }
      slot.coming = start(slot) if slot
    end

    # @return [Child, nil] nil when there is none to be had now
    def start(slot)
      ours, theirs = UNIXSocket.pair
      pid = fork do
        ours.close
        [@wake_read, @wake_write, *children.map(&:io)].each(&:close)
        trap("CHLD", @before_child || "DEFAULT")
        exit(@run_child.call(slot.share, theirs))
      end
      theirs.close
      Child.new(pid, ours)
    rescue SystemCallError => e
      [ours, theirs].each { |io| io&.close }
      slot.start_at = OjsWorker.now + FORK_PAUSE
      OjsWorker.log(:error) { "a process cannot be forked (#{e.message}): tried again in #{FORK_PAUSE} s" }
      nil
    end

    def wait
      due = @slots.reject(&:child).map { |slot| slot.start_at - OjsWorker.now }
      due = [] if @stopping
      ready, = IO.select([@wake_read, *children.map(&:io)], nil, nil, [LOOK_EVERY, *due].min.clamp(0, LOOK_EVERY))
      @wake_read.read_nonblock(4096, exception: false) if ready&.include?(@wake_read)
    end

    def listen
      @slots.each do |slot|
        [slot.child, slot.coming, slot.leaving].compact.each do |child|
          child.words.each { |word| on_word(slot, child, word) }
        end
      end
    end

    def on_word(slot, child, word)
      case word
      when "ready"
        child.ready = true
        return unless child.equal?(slot.coming)
        slot.leaving = slot.child
        slot.leaving&.say("go")
        slot.child = child
        slot.coming = nil
      when "worn" then child.worn = true
      when "terminating" then stop
      when "lost" then stop("TERM")
      when /\Amemory (\d+)/ then warn_of_memory($1)
      end
    end

    def warn_of_memory(resident)
      return if @warned_of_memory
      @warned_of_memory = true
      OjsWorker.log(:warn) do
        "a process that has done nothing yet has #{resident} bytes of memory, and max_memory is #{@max_memory}: it is not kept to, raise it"
      end
    end

    def reap
      @slots.each do |slot|
        %i[child coming leaving].each do |place|
          child = slot[place]
          status = child && ended(child)
          next unless status
          child.words.each { |word| on_word(slot, child, word) } # its last, which may move it
          child.io.close
          place = %i[child coming leaving].find { |each| slot[each].equal?(child) }
          slot[place] = nil
          on_end(slot, place, child, status)
        end
      end
    end

    def ended(child)
      Process.wait2(child.pid, Process::WNOHANG)&.last
    rescue Errno::ECHILD
      OjsWorker.log(:warn) { "process #{child.pid} was waited for by somebody else: its status is not known" }
      Status.new(nil, 1)
    end

    # Of a process whose own is not known.
    Status = Struct.new(:termsig, :exitstatus)

    def on_end(slot, place, child, status)
      code = status.termsig ? 128 + status.termsig : status.exitstatus
      if @stopping
        @worst = [@worst, code].max
        return
      end
      return if place == :leaving && code.zero?
      if place == :child && slot.coming
        slot.child = slot.coming
        slot.coming = nil
      end
      how = status.termsig ? "killed by signal #{status.termsig}" : "status #{code}"
      return OjsWorker.log(:warn) { "process #{child.pid} ended (#{how}) as it was to be replaced" } if place == :leaving
      slot.deaths = OjsWorker.now - child.started_at < YOUNG ? slot.deaths + 1 : 1
      pause = slot.deaths == 1 ? 0 : [LEAST_PAUSE * (2**[slot.deaths - 2, 10].min), MOST_PAUSE].min
      slot.start_at = OjsWorker.now + pause
      OjsWorker.log(:error) { "process #{child.pid} ended (#{how}): another one takes its place in #{pause} s" }
    end
  end
end
