# frozen_string_literal: true

require_relative "fake_init"
require "ojs_worker/testing"
require "open3"

# The gem, its signatures and its documentation.
class TestPackage < Minitest::Test
  ROOT = File.expand_path("..", __dir__)

  def test_the_gem_is_built_and_installed_without_a_network_and_can_be_required
    Dir.mktmpdir("ojs-gem-") do |folder|
      file = File.join(folder, "ojs-worker.gem")
      home = { "GEM_HOME" => File.join(folder, "home"), "GEM_PATH" => File.join(folder, "home"), "RUBYLIB" => nil, "RUBYOPT" => nil }
      [["gem", "build", "ojs-worker.gemspec", "--output", file], ["gem", "install", "--local", "--no-document", file]].each do |command|
        output, status = Open3.capture2e(home, *command, chdir: ROOT)
        assert(status.success?, output)
        assert_empty(output.lines.grep(/WARNING/).reject { |line| line.match?(/See https|no homepage|GEM_HOME|PATH/) })
      end
      output, status = Open3.capture2e(home, "ruby", "-e", "require 'ojs_worker/testing'; puts OjsWorker::VERSION", chdir: folder)
      assert(status.success?, output)
      assert_equal(OjsWorker::VERSION, output.chomp)
      license = File.join(home["GEM_HOME"], "gems", "ojs-worker-#{OjsWorker::VERSION}", "LICENSE")
      assert_equal(File.read(File.join(ROOT, "../../LICENSE")), File.read(license))
    end
  end

  def test_each_signature_is_of_a_method_that_is_there
    signatures.each do |owner, names|
      methods = owner.instance_methods + owner.private_instance_methods
      names[:instance].each { |name| assert_includes(methods, name, owner.to_s) }
      names[:singleton].each { |name| assert_respond_to(owner, name) }
    end
  end

  def test_each_public_method_has_a_signature
    { OjsWorker::Job => [:inspect, :to_s, :cancel, :save_progress, :save_at_end, :ending, :mark],
      OjsWorker::Worker => %i[handler_for types call_handler usual_step note_step] }.each do |owner, internal|
      public_methods = owner.public_instance_methods(false) + owner.included_modules.grep(OjsWorker::Resumable).flat_map(&:public_instance_methods)
      assert_empty(public_methods - signatures[owner][:instance] - internal)
    end
  end

  def test_each_file_is_short_and_each_class_says_what_it_is
    Dir[File.join(ROOT, "{lib,test,examples,bench}/**/*.rb")].each do |file|
      lines = File.readlines(file)
      assert_operator(lines.size, :<=, 500, file)
      lines.each_cons(2).with_index do |(before, line), at|
        next if !line.match?(/\A\s*(class|module) [A-Z]/) || line.include?("< Struct") || line.match?(/module OjsWorker$/)
        assert_match(/^\s*#/, before, "#{file}:#{at + 2}: what is it?")
      end
    end
  end

  private

  # For each class of ours its methods, as sig/ojs_worker.rbs has them.
  def signatures
    @signatures ||= begin
      require "rbs"
      found = {}
      RBS::Parser.parse_signature(File.read(File.join(ROOT, "sig/ojs_worker.rbs"))).then { |parsed| parsed[2] || parsed }.each do |outer|
        collect(Object, outer, found)
      end
      found
    rescue LoadError
      skip("the gem rbs is not there")
    end
  end

  def collect(scope, declaration, found)
    return unless declaration.is_a?(RBS::AST::Declarations::Module) || declaration.is_a?(RBS::AST::Declarations::Class)
    owner = scope.const_get(declaration.name.to_s)
    names = found[owner] = { instance: [], singleton: [] }
    declaration.members.each do |member|
      case member
      when RBS::AST::Members::MethodDefinition then names[member.kind] << member.name
      when RBS::AST::Members::AttrReader, RBS::AST::Members::AttrAccessor then names[:instance] << member.name
      else collect(owner, member, found)
      end
    end
  end
end
