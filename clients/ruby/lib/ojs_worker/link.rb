# frozen_string_literal: true

require "socket"

module OjsWorker
  # The connection. One thread calls {#round} again and again; any thread may {#post}.
  #
  # Reading never waits for writing: ojs-init stops reading from us while we do not read from it.
  # @api private
  class Link
    READ_SIZE = 256 * 1024
    WRITE_BUDGET = 1024 * 1024

    # A frame on its way out.
    class Outgoing
      attr_reader :data
      attr_accessor :written, :over, :withdrawn

      def initialize(data)
        @data = data
        @written = @over = @withdrawn = false
      end
    end

    @all = []

    class << self
      # In a forked child: let go of what is the parent's.
      def abandon_all
        links = @all
        @all = []
        links.each(&:abandon)
      end

      def add(link)
        @all += [link]
      end

      def remove(link)
        @all -= [link]
      end
    end

    # @return [Integer] the process that it belongs to
    attr_reader :pid
    # @return [Proc, nil] called in a forked child
    attr_accessor :in_forked_child
    # @return [IO, nil] wakes {#round} when there is something to read
    attr_accessor :watched

    def initialize
      @pid = Process.pid
      @wake_read, @wake_write = IO.pipe
      @wake_write.sync = true
      @lock = Mutex.new
      @progress = ConditionVariable.new
      @open = true
      @eof = @broken = false
      @urgent = []
      @queue = []
      @current = nil
      @sent = 0
      @buffer = String.new(encoding: Encoding::BINARY)
      @searched = 0
      Link.add(self)
    end

    def connect(path)
      @sock = UNIXSocket.new(path)
    end

    def eof?
      @eof
    end

    # Write a frame, or as much of it as there is room for; the rest goes out in {#round}. An urgent one overtakes others.
    # @raise [ConnectionLost]
    def post(data, urgent: false)
      item = Outgoing.new(data)
      # Not in the midst of it: half a frame would be what Timeout.timeout or Thread#kill leaves.
      Thread.handle_interrupt(Object => :never) do
        @lock.synchronize do
          raise ConnectionLost, "ojs-init has closed the connection" unless @open
          (urgent ? @urgent : @queue) << item
          write if @current.nil? && @sock
          wake unless flushed?
        end
      end
      item
    end

    # Wait until a frame is written.
    # @return [Boolean] false when it is not by then, and was withdrawn
    # @raise [ConnectionLost] when it never will be
    def wait(item, seconds)
      return true if item.written
      deadline = OjsWorker.now + seconds
      @lock.synchronize do
        until item.over || @eof || @broken
          left = deadline - OjsWorker.now
          withdraw(item) if left <= 0
          break if item.over
          # What is half written already goes out soon or never.
          @progress.wait(@lock, [left, 0.1].max)
        end
      end
      raise ConnectionLost, "ojs-init has closed the connection" unless item.written || item.withdrawn
      item.written
    end

    # Let {#round} return. Also from a signal handler, so without a lock.
    def wake
      @wake_write.write_nonblock(".", exception: false)
    rescue IOError, SystemCallError
      nil # closed: nobody waits any more
    end

    def flushed?
      @current.nil? && @urgent.empty? && @queue.empty?
    end

    # Wait for something to do, do it, and return the lines that came in.
    # @param timeout [Numeric, nil] seconds
    def round(timeout)
      readers = [@sock, @wake_read]
      readers << @watched if @watched
      ready, writable = IO.select(readers, flushed? ? nil : [@sock], nil, timeout && [timeout, LONGEST_WAIT].min)
      return [] unless ready
      unless writable.empty?
        @lock.synchronize { write }
        at_eof if @broken && !ready.include?(@sock)
      end
      @wake_read.read_nonblock(4096, exception: false) if ready.include?(@wake_read)
      ready.include?(@sock) && !@eof ? read : []
    end

    # Close it; only from the thread that calls {#round}.
    def close
      @lock.synchronize do
        return unless @open
        @open = false
        Link.remove(self)
        ([@current] + @urgent + @queue).each { |item| item.over = true if item }
        @current = nil
        @urgent.clear
        @queue.clear
        @progress.broadcast
        drain if @sock
        close_descriptors
      end
    end

    # In a forked child. Takes no lock: its owner may not exist here.
    def abandon
      @in_forked_child&.call
      @open = false
      close_descriptors
    rescue IOError, SystemCallError
      nil
    end

    private

    # With the lock held.
    def write
      budget = WRITE_BUDGET
      while budget.positive? && !@broken
        @current ||= @urgent.shift || @queue.shift || break
        rest = @sent.zero? ? @current.data : @current.data.byteslice(@sent..)
        sent = @sock.write_nonblock(rest, exception: false)
        break if sent == :wait_writable
        @sent += sent
        budget -= sent
        finish_current if @sent == @current.data.bytesize
      end
    rescue SystemCallError, IOError
      # What the other end wrote before it closed is still to be read. Whoever waits for a frame to be written waits in vain.
      @broken = true
      @progress.broadcast
      wake
    end

    def finish_current
      @current.written = @current.over = true
      @current = nil
      @sent = 0
      @progress.broadcast
    end

    def withdraw(item)
      if @current.equal?(item) && @sent.zero?
        @current = nil
      elsif @queue.delete(item).nil?
        return
      end
      item.withdrawn = item.over = true
      @progress.broadcast
    end

    def read
      chunk = begin
        @sock.read_nonblock(READ_SIZE, exception: false)
      rescue SystemCallError, IOError
        nil
      end
      return [] if chunk == :wait_readable
      if chunk.nil?
        at_eof
        return []
      end
      @buffer << chunk
      cut_lines
    end

    def at_eof
      @lock.synchronize do
        @eof = true
        @progress.broadcast
      end
    end

    def cut_lines
      lines = []
      start = 0
      while (stop = @buffer.index("\n", @searched))
        lines << @buffer.byteslice(start, stop - start)
        start = @searched = stop + 1
      end
      @buffer = @buffer.byteslice(start..) if start.positive?
      @searched = @buffer.bytesize
      lines
    end

    # A socket closed with something unread is a reset to the other side.
    def drain
      @sock.close_write
      64.times do
        chunk = @sock.read_nonblock(READ_SIZE, exception: false)
        break if chunk.nil? || chunk == :wait_readable
      end
    rescue SystemCallError, IOError
      nil
    end

    def close_descriptors
      [@sock, @wake_read, @wake_write].each { |io| io&.close }
    end
  end

  # A child that a handler forks must not hold the connection.
  # @api private
  module ForkGuard
    def _fork
      pid = super
      Link.abandon_all if pid.zero?
      pid
    end
  end

  Process.singleton_class.prepend(ForkGuard)
end
