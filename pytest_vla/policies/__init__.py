"""What a policy is, and the policies that come with pytest-vla."""
