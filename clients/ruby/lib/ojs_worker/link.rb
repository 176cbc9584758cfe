# frozen_string_literal: true

require "socket"

module OjsWorker
  # The connection to ojs-init. One thread calls {#read} again and again; any thread may {#post}.
  #
  # Nothing blocks the reading thread: output that the socket has no room for waits in a buffer.
  # @api private
  class Link
    READ_SIZE = 256 * 1024

    @open = []

    class << self
      # @return [Array<Link>] the links of this process
      attr_accessor :open
    end

    # @return [Proc, nil] called in a forked child
    attr_accessor :on_fork

    def initialize
      @wake_read, @wake_write = IO.pipe
      @lock = Mutex.new
      @flushed = ConditionVariable.new
      @output, @input = "".b, "".b
      @posted = @sent = 0
      @eof = @broken = @foreign = false
      Link.open += [self]
    end

    # @raise [SystemCallError]
    def connect(path) = @socket = UNIXSocket.new(path)

    # @return [Boolean] whether ojs-init has closed the connection
    def eof? = @eof

    # @return [Boolean] whether the connection belongs to the parent process
    def foreign? = @foreign

    # @return [Boolean] whether all output is written, or never will be
    def flushed? = @output.empty?

    # Wait for input, for room for output, or for {#wake}.
    # @param timeout [Numeric, nil] seconds
    # @return [Array<String>] the lines that have arrived
    def read(timeout = nil)
      ready, writable = IO.select([@socket, @wake_read], flushed? ? nil : [@socket], nil, timeout)
      return [] unless ready
      @wake_read.read_nonblock(4096, exception: false) if ready.include?(@wake_read)
      @lock.synchronize { flush } if writable.any?
      ready.include?(@socket) ? read_lines : []
    end

    # Let {#read} return. Takes no lock, so a signal handler may call it.
    def wake
      @wake_write.write_nonblock(".", exception: false)
    rescue IOError, SystemCallError
      nil # The link is closed and nothing waits in `read`.
    end

    # Write a frame, or as much as there is room for; {#read} writes the rest.
    # @return [Integer, nil] what {#wait} takes; nil if the connection is closed
    def post(data)
      # A Timeout or Thread#kill in the middle would leave half a frame.
      Thread.handle_interrupt(Object => :never) do
        @lock.synchronize do
          return if @broken
          @output = flushed? ? data : @output << data
          @posted += data.bytesize
          flush
          wake unless flushed?
          @posted
        end
      end
    end

    # Wait until the frame that {#post} returned this position for is written.
    # @return [Boolean] false if the connection was closed before
    def wait(position)
      @lock.synchronize do
        @flushed.wait(@lock) until @sent >= position || @broken
        @sent >= position
      end
    end

    # Close it. Only the thread that calls {#read} may do that.
    def close
      Link.open -= [self]
      mark_eof
      close_all
    end

    # Release the parent's connection in a forked child. Takes no lock, as its owner may be gone.
    def abandon
      @foreign = @broken = true
      close_all
      @on_fork&.call
    end

    private

    def close_all = [@socket, @wake_read, @wake_write].each { |io| io&.close }

    # The caller holds the lock.
    def flush
      until @output.empty?
        count = @socket.write_nonblock(@output, exception: false)
        return if count == :wait_writable
        @sent += count
        @output = @output.byteslice(count..)
      end
      @flushed.broadcast
    rescue SystemCallError, IOError
      # Input that ojs-init wrote before it closed the connection is still read.
      break_off
    end

    def read_lines
      chunk = @socket.read_nonblock(READ_SIZE, exception: false)
      return [] if chunk == :wait_readable
      return mark_eof unless chunk
      *lines, @input = (@input << chunk).split("\n", -1)
      lines
    rescue SystemCallError, IOError
      mark_eof
    end

    def mark_eof
      @eof = true
      @lock.synchronize { break_off }
      []
    end

    # Drop the output; nobody reads it. The caller holds the lock.
    def break_off
      @broken = true
      @output = "".b
      @flushed.broadcast
    end
  end

  # A forked child must not hold the connection.
  # @api private
  module ForkGuard
    def _fork
      pid = super
      if pid.zero?
        links, Link.open = Link.open, []
        links.each(&:abandon)
      end
      pid
    end
  end

  Process.singleton_class.prepend(ForkGuard)
end
