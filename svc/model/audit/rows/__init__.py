"""What is signed of protected rows, by subject; of people and policies see ``state`` above."""
