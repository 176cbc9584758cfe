# frozen_string_literal: true

module OjsWorker
  # The positional arguments that a handler takes: how many, and of which types.
  # @api private
  class Arguments
    # What JSON calls the values of these classes is clearer than the class.
    KINDS = { NilClass => "nil", TrueClass => "true", FalseClass => "false" }.freeze

    # @param parameters [Array] of `Method#parameters`, without that for the job
    # @param types [Array, nil] for each argument what `===` its value: a class, nil, or an Array of
    #   alternatives; nil: any
    # @raise [ArgumentError] if no job could be right
    def initialize(parameters, types = nil)
      @names = parameters.select { |kind, _| %i[req opt].include?(kind) }.map(&:last)
      @least = parameters.count { |kind, _| kind == :req }
      @most = parameters.any? { |kind, _| kind == :rest } ? Float::INFINITY : @names.size
      @types = types
      return if types.nil? || types.size.between?(@least, @most)
      raise ArgumentError, "#{types.size} types for #{@names.size} arguments"
    end

    # @raise [InvalidArgs] if the arguments do not fit
    def check(args)
      raise InvalidArgs, "arguments: #{expected} expected, #{args.size} given" unless args.size.between?(@least, most)
      @types&.zip(args)&.first(args.size)&.each_with_index { |(type, value), at| check_type(type, value, at) }
    end

    private

    # A handler with types takes no more arguments than it has types.
    def most = @types ? @types.size : @most

    def check_type(type, value, position)
      kinds = type.is_a?(Array) ? type : [type]
      return if kinds.any? { |kind| kind === value || (kind == Float && value.is_a?(Integer)) }
      name = @names[position] ? " (#{@names[position]})" : ""
      wanted = kinds.map { |kind| kind.nil? ? "nil" : kind }.join(" or ")
      raise InvalidArgs, "args[#{position}]#{name}: #{wanted} expected, #{KINDS.fetch(value.class, value.class)} given"
    end

    def expected = most == Float::INFINITY ? "#{@least} or more" : [@least, most].uniq.join(" to ")
  end
end
