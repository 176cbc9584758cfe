# frozen_string_literal: true

module OjsWorker
  # The handlers, the middleware and the hooks of a worker.
  # @api private
  class Registry
    # The middleware, the outermost first, and the hooks for failed jobs.
    attr_reader :middleware, :hooks

    def initialize
      @handlers, @middleware, @hooks = {}, [], []
    end

    def empty? = @handlers.empty?

    # @return [Array<String>, nil] the types of all handlers; nil: every type
    def types = @handlers.key?("*") ? nil : @handlers.keys

    # @raise [ArgumentError]
    def add(type, handler)
      is_type = type.is_a?(String) && type.bytesize.between?(1, 1024)
      raise ArgumentError, "a job type is a String of 1 to 1024 bytes, not #{type.inspect}" unless is_type
      raise ArgumentError, "there are two handlers for #{type.inspect}" if @handlers.key?(type)
      @handlers[type] = handler
    end

    # Run the handler of a job within the middleware, the first one outermost.
    # @return [Object] the result
    def call(job, depth = 0)
      return @middleware[depth].call(job) { call(job, depth + 1) } if depth < @middleware.size
      handler = handler_for(job)
      return handler.call(job) if handler
      raise Retry.new("this worker has no handler for #{Wire.line(job.type, 200)}", code: "handler_not_found")
    end

    # Call the hooks for a failed job.
    def failed(job, error, is_final)
      exhausted = handler_for(job).exhausted if is_final && handler_for(job).is_a?(ClassHandler)
      [*@hooks, *exhausted].each do |hook|
        OjsWorker.interruptible { hook.call(job, error) }
      rescue Exception => e # rubocop:disable Lint/RescueException
        OjsWorker.log(:error, "job #{job.id}: a hook for failed jobs raises", e)
      end
    end

    private

    # A job without a type has no handler.
    def handler_for(job) = (@handlers[job.type] || @handlers["*"] unless job.type.empty?)
  end

  # A handler that is a block or another callable. It gets the job, and the arguments it takes.
  # @api private
  class CallableHandler
    # @param types [Array, nil] see {Arguments}
    # @raise [ArgumentError] if it could not be called with any job
    def initialize(callable, types)
      @callable = callable
      parameters = parameters_of(callable)
      rest = parameters.drop(1)
      # A `:rest` without a name is that of `&:symbol`.
      @takes_args = rest.any? { |kind, name| name && %i[req opt rest].include?(kind) }
      @arguments = Arguments.new(@takes_args ? rest : [[:rest]], types) if @takes_args || types
    end

    def call(job)
      @arguments&.check(job.args)
      @takes_args ? @callable.call(job, *job.args) : @callable.call(job)
    end

    private

    def parameters_of(callable)
      is_block = callable.is_a?(Proc) && !callable.lambda?
      callable = callable.method(:call) unless callable.is_a?(Proc) || callable.is_a?(Method)
      parameters = callable.parameters
      if parameters.any? { |kind, _| kind == :keyreq } || (parameters.empty? && !is_block)
        raise ArgumentError, "a handler cannot have the parameters #{parameters.map(&:last).inspect}: write " \
                             "{ |job| ... } and use job.args, or { |job, to, body| ... }"
      end
      is_block ? required_first(parameters, callable.arity) : parameters
    end

    # A block calls all its parameters optional; its arity says how many have no default.
    def required_first(parameters, arity)
      least = arity.negative? ? -arity - 1 : arity
      parameters.each_with_index.map { |(kind, name), at| [kind == :opt && at < least ? :req : kind, name] }
    end
  end

  # A handler that is a job class.
  # @api private
  class ClassHandler
    # @raise [ArgumentError]
    def initialize(job_class)
      @job_class, @arguments = job_class, job_class.job_arguments
    end

    def call(job)
      @arguments.check(job.args)
      instance = @job_class.new
      instance.job = job
      instance.perform(*job.args)
    end

    def exhausted = @job_class.method(:exhausted)
  end
end
